"""The gate beyond the worked cases."""

from collections.abc import Iterator

import pytest

from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, Mode, local_identity
from secmon.security.rbac.authorization import Authorizer, Require, check, named_ids
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.view import SecurityView
from tests.security.rbac.inventory import WorldInventory

POLICIES = {
    100: ("manager:read", "*:*:*", "allow"),
    101: ("manager:read", "*:*:*", "deny"),
    102: ("cluster:read", "node:id:m1", "allow"),
    103: ("cluster:read", "node:id:m1", "deny"),
    104: ("agent:read", "agent:group:web", "allow"),
    105: ("security:read", "role:id:1", "allow"),
}
MANAGER = Require("manager:read", also=(Require("cluster:read", "node:id"),))


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecurityView]:
    """One role for each policy, with the same id."""
    store = SecurityStore(tmp_path_factory.mktemp("gate") / "security.db")
    with store.write() as tx:
        for number, (action, resource, effect) in POLICIES.items():
            body = f'{{"actions":["{action}"],"resources":["{resource}"],"effect":"{effect}"}}'
            tx.put(schema.policies, {"id": number, "name": f"p{number}", "policy": body, "created_at": 0})
            tx.put(schema.roles, {"id": number, "name": f"r{number}", "created_at": 0})
            tx.put(schema.role_policies, {"role_id": number, "policy_id": number, "position": 0})
    yield store.view()
    store.close()


def gate(view: SecurityView, *roles: int, mode: Mode = "white", node: str = "m1") -> Authorizer:
    return Authorizer(Identity("u", 100, roles, False, mode), view, WorldInventory(), node=node)


@pytest.mark.parametrize(
    ("mode", "roles", "granted"),
    [
        ("white", (), False),
        ("white", (100,), True),
        ("white", (102,), True),
        ("white", (100, 101), False),
        ("white", (101, 102), True),
        ("black", (), True),
        ("black", (101,), False),
        ("black", (103,), False),
        ("black", (101, 100), True),
    ],
)
def test_alternatives(view: SecurityView, mode: Mode, roles: tuple[int, ...], granted: bool) -> None:
    if granted:
        assert gate(view, *roles, mode=mode).check(MANAGER).ids == ("*",)
        return
    with pytest.raises(SecmonError, match=r"Resource type: \*:\*$") as caught:
        gate(view, *roles, mode=mode).check(MANAGER)
    assert (caught.value.code, caught.value.ids) == (4000, ())


def test_static_node_is_the_one_that_executes(view: SecurityView) -> None:
    require = Require("cluster:read", "node:id")
    assert gate(view, 102, node="m1").check(require).ids == ("m1",)
    with pytest.raises(SecmonError, match="node:id") as caught:
        gate(view, 102, node="w1").check(require)
    assert caught.value.ids == ("w1",)


def test_local_calls_may_do_everything(view: SecurityView) -> None:
    assert check(local_identity(), view, MANAGER, None, WorldInventory(), node="m1").ids == ("*",)
    anything = Require("agent:delete", "agent:id", "agents_list", "each")
    assert check(local_identity(), view, anything, None, WorldInventory(), node="m1").scope.everything


def test_security_ids_are_reported_as_integers(view: SecurityView) -> None:
    grant = gate(view, 105).check(Require("security:read", "role:id", "role_ids", "each"), ["1", "2", "2"])
    assert grant.error is not None
    assert (grant.ids, grant.denied, grant.error.ids) == (("1",), ("2",), (2,))


def test_repeated_ids_stay_repeated_in_request_order(view: SecurityView) -> None:
    grant = gate(view, 104).check(Require("agent:read", "agent:id", "agents_list", "each"), ["002", "001", "002"])
    assert (grant.ids, grant.denied, grant.error) == (("002", "001", "002"), (), None)


def test_item_mode_never_refuses_the_request(view: SecurityView) -> None:
    grant = gate(view).check(Require("rules:delete", "rule:file", "filename", "item"), ["a.xml"])
    assert (grant.ids, grant.denied) == ((), ("a.xml",))


def test_restrict_mode_drops_silently(view: SecurityView) -> None:
    require = Require("agent:read", "agent:id", mode="restrict")
    assert gate(view).check(require).scope.nothing
    assert gate(view, 104).check(require, ["001", "003"]).ids == ("001",)
    assert gate(view, 104).check(require, ["001", "003"]).error is None


def test_whole_mode_refuses_when_any_id_is_denied(view: SecurityView) -> None:
    with pytest.raises(SecmonError) as caught:
        gate(view, 104).check(Require("agent:read", "agent:id", "agent_id"), ["001", "003"])
    assert caught.value.ids == ("003",)


def test_each_resource_is_expanded_once(view: SecurityView) -> None:
    inventory = WorldInventory()
    one = Authorizer(Identity("u", 100, (104,), False, "white"), view, inventory, node="m1")
    require = Require("agent:read", "agent:id", "agents_list", "each")
    assert one.check(require).select(["001", "003"]) == ["001"]
    one.check(require, ["001"])
    assert inventory.asked == [("agent:group", "web")]


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (None, None),
        ("all", None),
        ("*", None),
        (["001", "all"], None),
        ([], ()),
        ("001", ("001",)),
        ([4, 5], ("4", "5")),
    ],
)
def test_named_ids(value: object, ids: tuple[str, ...] | None) -> None:
    assert named_ids(value) == ids
