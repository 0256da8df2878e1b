"""Every worked permission case, through the gate, over a real store (rbac.md 12)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml

from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, Mode
from secmon.security.origin import initialise
from secmon.security.rbac.authorization import Authorizer, Require
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.view import SecurityView
from tests.manual_clock import ManualClock
from tests.security.rbac.inventory import EXISTING, WorldInventory

NAMED = "named"


class Outcome(msgspec.Struct, forbid_unknown_fields=True):
    items: list[str] | Literal["executed"] = []
    forbidden: list[str] = []
    unusable: list[str] = []
    denied: str | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    mode: Mode
    request: str
    outcome: Outcome
    policies: list[str] | None = None
    roles: list[str] = []
    named: list[str] | None = None


CASES = msgspec.convert(yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text()), list[Case])

# What each request needs, and the fixed ids of checks that do not concern the named ids.
REQUESTS: dict[str, list[tuple[Require, list[str] | None]]] = {
    "GET /agents": [(Require("agent:read", "agent:id", NAMED, "each"), None)],
    "GET /agents/summary/status": [(Require("agent:read", "agent:id", mode="restrict"), None)],
    "POST /agents": [(Require("agent:create"), None)],
    "DELETE /agents": [(Require("agent:delete", "agent:id", NAMED, "each"), None)],
    "PUT /agents/restart": [(Require("agent:restart", "agent:id", NAMED, "each"), None)],
    "PUT /active-response": [(Require("active-response:command", "agent:id", NAMED, "each"), None)],
    "PUT /agents/group": [
        (Require("group:modify_assignments", "group:id", "group_id"), ["web"]),
        (Require("agent:modify_group", "agent:id", NAMED, "each"), None),
    ],
    "GET /groups": [(Require("group:read", "group:id", NAMED, "each"), None)],
    "GET /cluster/nodes": [(Require("cluster:read", "node:id", NAMED, "each"), None)],
    "GET /cluster/local/info": [(Require("cluster:read", "node:id"), None)],
    "GET /manager/info": [(Require("manager:read", also=(Require("cluster:read", "node:id"),)), None)],
    "GET /rules/files": [(Require("rules:read", "rule:file", NAMED, "each"), None)],
    "GET /security/users": [(Require("security:read", "user:id", NAMED, "each"), None)],
    "GET /security/roles": [(Require("security:read", "role:id", NAMED, "each"), None)],
    "GET /security/config": [(Require("security:read_config"), None)],
    "POST /security/users": [(Require("security:create_user"), None)],
    "POST /security/users/100/roles": [
        (Require("security:update", "user:id", "user_id"), ["100"]),
        (Require("security:update", "role:id", NAMED, "each"), None),
    ],
}
COMMANDS = ("PUT /agents/restart", "PUT /active-response")


def policy_body(text: str) -> dict[str, Any]:
    effect, rest = text.split(" ", 1)
    actions, resources = rest.split(" on ")
    return {"actions": actions.split(", "), "resources": resources.split(", "), "effect": effect}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecurityView, dict[str, int]]]:
    """A store with one role for each policy text of the cases, and the roles' ids by text."""
    store = SecurityStore(tmp_path_factory.mktemp("world") / "security.db")
    initialise(store, admin_password="Abcdef1!", dashboard_password="Abcdef1!", clock=ManualClock())
    texts = {text for case in CASES for text in case.policies or ()} | {"deny agent:read on agent:id:001"}
    ids: dict[str, int] = {}
    with store.write() as tx:
        for text in sorted(texts):
            body = msgspec.json.encode(policy_body(text)).decode()
            same = tx.select(schema.policies, policy=body)
            policy, role = same[0]["id"] if same else tx.next_id(schema.policies), tx.next_id(schema.roles)
            tx.put(schema.policies, {"id": policy, "name": text, "policy": body, "created_at": 0})
            tx.put(schema.roles, {"id": role, "name": text, "created_at": 0})
            tx.put(schema.role_policies, {"role_id": role, "policy_id": policy, "position": 0})
            ids[text] = role
    view = store.view()
    ids |= {role.name: role.id for role in view.roles.values()}
    ids["X"] = ids["deny agent:read on agent:id:001"]
    yield view, ids
    store.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, world: tuple[SecurityView, dict[str, int]]) -> None:
    view, ids = world
    names = case.roles if case.policies is None else case.policies
    identity = Identity("someone", 100, tuple(ids[name] for name in names), False, case.mode)
    gate = Authorizer(identity, view, WorldInventory(), node="m1")
    if case.outcome.denied is not None:
        with pytest.raises(SecmonError, match=f"4000: .*: Resource type: {case.outcome.denied.replace('*', '[*]')}$"):
            run(case, gate)
        return
    assert run(case, gate) == case.outcome


def run(case: Case, gate: Authorizer) -> Outcome:
    """The operation's own part: permitted ids that exist are items, the others fail or, without a list, vanish."""
    for require, fixed in REQUESTS[case.request]:
        grant = gate.check(require, case.named if require.param == NAMED else fixed)
    if require.resource == "*:*":
        return Outcome(items="executed")
    usable = EXISTING[require.resource] - ({"000"} if case.request in COMMANDS else set())
    items = [item for item in grant.select(sorted(usable)) if item in usable]
    unusable = [item for item in grant.ids if item not in usable] if require.param == NAMED else []
    return Outcome(items=items, forbidden=list(grant.denied), unusable=unusable)
