"""First contents of a security store."""

from pathlib import Path

import msgspec
import pytest
import yaml

from secmon.common.errors import SecmonError
from secmon.security.origin import add_policies, initialise, missing_policies
from secmon.security.policy_changes import create_policy
from secmon.security.rbac.defaults import load_defaults
from secmon.security.rbac.model import Settings
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from tests.folders import REPOSITORY
from tests.manual_clock import ManualClock
from tests.security.conftest import PASSWORD, find

ROLES = {
    1: (
        "administrator",
        (1, 2, 3, 6, 7, 8, 29, 30, 12, 14, 15, 18, 19, 21, 23, 24, 16, 25, 27, 28, 33, 34, 35, 36, 37, 38, 39),
    ),
    2: ("readonly", (4, 5, 12, 31, 32, 13, 17, 20, 22, 16, 25, 26, 28, 36, 38, 40)),
    3: ("users_admin", (9, 10)),
    4: ("agents_readonly", (4, 5, 38, 40)),
    5: ("agents_admin", (1, 2, 3, 38, 39)),
    6: ("cluster_readonly", (31, 32)),
    7: ("cluster_admin", (29, 30)),
}


def test_default_contents(store: SecurityStore) -> None:
    view = store.view()
    assert {number: (role.name, role.policies) for number, role in view.roles.items() if number < 100} == ROLES
    assert {number: role.rules for number, role in view.roles.items() if role.rules} == {1: (1, 2)}
    assert list(view.policies) == list(range(1, 41))
    assert {policy.effect for policy in view.policies.values()} == {"allow"}
    assert {rule.name: rule.rule for rule in view.rules.values()} == {
        "wui_elastic_admin": {"FIND": {"username": "elastic"}},
        "wui_opensearch_admin": {"FIND": {"user_name": "admin"}},
    }
    users = [find(view, name) for name in ("admin", "dashboard")]
    assert [(user.id, user.allow_run_as, user.roles) for user in users] == [(1, True, (1,)), (2, True, (1,))]
    assert view.settings == Settings(900, "white")


def test_shipped_file_is_as_typed() -> None:
    defaults = load_defaults()
    text = (REPOSITORY / "secmon/security/rbac/defaults.yaml").read_text()
    assert len(yaml.safe_load(text)["policies"]) == len(defaults.policies) == 40
    names = [policy.name for policy in defaults.policies]
    assert len(set(names)) == len(names)
    attached = {policy for role in defaults.roles for policy in role.policies}
    assert {policy.id for policy in defaults.policies} - attached == {11}


def test_custom_ids_start_at_100(tmp_path: Path) -> None:
    store = SecurityStore(tmp_path / "security.db")
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    with store.write() as tx:
        assert [tx.next_id(table) for table in (schema.users, schema.roles, schema.policies, schema.rules)] == [100] * 4
    store.close()


def test_a_filled_store_is_not_filled_again(store: SecurityStore) -> None:
    before = store.digest()
    with pytest.raises(ValueError, match="not empty"):
        initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    assert store.digest() == before


def test_weak_default_password_writes_nothing(tmp_path: Path) -> None:
    store = SecurityStore(tmp_path / "security.db")
    with pytest.raises(SecmonError, match="5009"):
        initialise(store, admin_password="short", dashboard_password=PASSWORD, clock=ManualClock())
    assert store.revision() == 0
    store.close()


def test_users_are_shown_without_their_password(store: SecurityStore) -> None:
    user = find(store.view(), "admin")
    assert user.password not in repr(user)
    assert msgspec.structs.asdict(user)["password"].startswith("$argon2id$")


def without_policy(store: SecurityStore, policy: int) -> None:
    """Make it the store of a version that did not have this default policy."""
    with store.write() as tx:
        tx.delete(schema.policies, policy)


def test_a_store_of_an_earlier_version_gets_the_policies_that_came_later(store: SecurityStore) -> None:
    before = store.view()
    without_policy(store, 40)
    missing = missing_policies(store.view().policies)
    with store.write() as tx:
        assert add_policies(tx, missing, ManualClock()) == ["silences_read_agents"]
    after = store.view()
    assert after.policies[40] == before.policies[40]
    assert {number: role.policies for number, role in after.roles.items()} == {
        number: role.policies for number, role in before.roles.items()
    }
    assert missing_policies(after.policies) == []


def test_a_policy_of_the_same_content_is_left_alone(store: SecurityStore) -> None:
    body = msgspec.to_builtins(load_defaults().policies[39].policy)
    without_policy(store, 40)
    with store.write() as tx:
        create_policy(tx, "own", body, ManualClock())
    with store.write() as tx:
        assert add_policies(tx, missing_policies(store.view().policies), ManualClock()) == []
    assert [policy.name for policy in store.view().policies.values()][-1] == "own"
