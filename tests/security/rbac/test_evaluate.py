"""Flattening and resolving, against a literal reading of the rules."""

from collections.abc import Iterable, Sequence, Set

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.identity import Mode
from secmon.security.rbac.evaluate import Requirement, Scope, flatten, permitted, resolve, scope
from secmon.security.rbac.explanation import explain
from secmon.security.rbac.model import Policy, Role
from tests.security.rbac.inventory import EXISTING, WorldInventory

RESOURCES = [
    "*:*:*",
    "agent:id:*",
    "agent:id:001",
    "agent:id:002",
    "agent:id:003",
    "agent:id:099",
    "agent:id:0*",
    "agent:group:*",
    "agent:group:web",
    "agent:group:db",
    "agent:group:nogroup",
    "group:id:*",
    "group:id:web",
    "node:id:*",
    "node:id:m1",
    "agent:id:001&group:id:web",
]
ACTIONS = ["agent:read", "agent:restart"]


def policy(effect: str, actions: Iterable[str], *resources: str) -> Policy:
    return Policy(100, "p", tuple(actions), resources, effect)


policies = st.lists(
    st.builds(
        lambda effect, actions, resources: policy(effect, actions, *resources),
        st.sampled_from(["allow", "allow", "deny"]),
        st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2, unique=True),
        st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=4),
    ),
    max_size=6,
)
requests = st.one_of(
    st.tuples(
        st.just("agent:id"),
        st.none() | st.lists(st.sampled_from(["000", "001", "002", "003", "005", "099"]), max_size=4).map(tuple),
    ),
    st.tuples(st.just("group:id"), st.none() | st.just(("web", "nogroup"))),
    st.tuples(st.just("node:id"), st.none() | st.just(("m1", "w1"))),
    st.just(("*:*", ("*",))),
)


def naive(ordered: Sequence[Policy], mode: Mode, required: Requirement) -> Set[str]:
    """Every statement applied in turn to sets written out, without flattening."""
    kind, universe = required.kind, EXISTING.get(required.kind, frozenset())
    allowed: set[str] = set()
    for action in required.actions:
        if mode == "black":
            allowed |= set(universe if required.ids is None else required.ids)
        for one in ordered:
            for resource in one.resources if action in one.actions else ():
                if "&" in resource:
                    continue
                resource_kind, value = resource.rsplit(":", 1)
                if ("agent:id" if resource_kind == "agent:group" else resource_kind) != kind:
                    continue
                touched = set(WorldInventory().expand(resource_kind, value))
                if required.ids is not None:
                    touched = set(required.ids) & (set(required.ids) if value == "*" else touched)
                allowed = allowed | touched if one.effect == "allow" else allowed - touched
    return allowed if required.ids is not None else allowed & universe


@settings(max_examples=200)
@given(policies, st.sampled_from(["white", "black"]), requests, st.lists(st.sampled_from(ACTIONS), min_size=1))
def test_equals_the_literal_reading(
    ordered: list[Policy], mode: Mode, request: tuple[str, tuple[str, ...] | None], actions: list[str]
) -> None:
    required = Requirement(tuple(actions), *request)
    assert resolve(flatten(ordered), mode, required, WorldInventory()) == naive(ordered, mode, required)


@settings(max_examples=100)
@given(st.lists(policies, max_size=3))
def test_explained_permissions_are_the_flattened_ones(held: list[list[Policy]]) -> None:
    known: dict[int, Policy] = {}
    roles = []
    for number, own in enumerate(held):
        ids = tuple(range(len(known), len(known) + len(own)))
        known.update(zip(ids, own, strict=True))
        roles.append(Role(number, "r", ids, ()))
    shown = [(one.action, one.resource, one.origin.policy.effect) for one in explain(roles, known)]
    flat = flatten(known.values()).actions
    assert shown == [
        (action, resource, effect)
        for action, resources in flat.items()
        for resource, effect in resources.items()
        if "&" not in resource
    ]
    for one in explain(roles, known):
        origin = one.origin
        assert roles[origin.role_position] is origin.role
        assert known[origin.role.policies[origin.policy_position]] is origin.policy
        assert (one.action in origin.policy.actions, one.resource in origin.policy.resources) == (True, True)


def test_last_writer_moves_to_the_end() -> None:
    found = flatten(
        [
            policy("allow", ["agent:read"], "agent:id:001", "agent:id:002"),
            policy("deny", ["agent:read"], "agent:id:001"),
        ]
    )
    assert list(found.actions["agent:read"].items()) == [("agent:id:002", "allow"), ("agent:id:001", "deny")]


def test_wildcard_erases_its_kind_and_later_entries_refine_it() -> None:
    found = flatten(
        [
            policy("deny", ["agent:read"], "agent:id:001", "agent:group:web", "group:id:web"),
            policy("allow", ["agent:read"], "agent:id:*", "agent:id:003"),
        ]
    )
    assert list(found.actions["agent:read"]) == ["group:id:web", "agent:id:*", "agent:id:003"]


def test_wildcard_of_another_kind_leaves_groups_alone() -> None:
    found = flatten([policy("allow", ["agent:read"], "agent:group:web", "node:id:*")])
    assert list(found.actions["agent:read"]) == ["agent:group:web", "node:id:*"]


@pytest.mark.parametrize("resource", ["agent:id", "a-b:id:1", "agent:*:1", "agent:id:é", "a:b:c&d:e:f&g:h:i", "x", ""])
def test_unusable_resources_are_shown_and_do_nothing(resource: str) -> None:
    found = flatten([policy("allow", ["agent:read"], resource, "agent:id:001")])
    assert list(found.actions["agent:read"]) == [resource, "agent:id:001"]
    assert permitted(found, "white", Requirement(("agent:read",), "agent:id", ("001",)), WorldInventory()) == {"001"}


def test_full_access_asks_no_inventory() -> None:
    inventory = WorldInventory()
    found = flatten([policy("allow", ["agent:read"], "agent:id:*", "agent:group:*")])
    assert scope(found, "white", Requirement(("agent:read",), "agent:id", None), inventory).everything
    assert not inventory.asked


def test_scope_membership() -> None:
    assert Scope().nothing
    assert "001" not in Scope()
    all_but = Scope(frozenset({"002"}), complement=True)
    assert "001" in all_but
    assert "002" not in all_but
    assert not all_but.everything
    assert all_but.among(["001", "002", "003"]) == {"001", "003"}
