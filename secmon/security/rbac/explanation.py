"""Permissions with their origin: which policy of which role decides on each action and resource."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from secmon.security.rbac.evaluate import counts, deciding
from secmon.security.rbac.model import Policy, Role


class Placed(NamedTuple):
    """A policy at its place among the policies of a role, and this role among the roles. Places begin at 0."""

    role: Role
    role_position: int
    policy: Policy
    policy_position: int


class Permission(NamedTuple):
    """What counts for ``action`` on ``resource``, and the policy that says it; earlier ones are overridden."""

    action: str
    resource: str
    origin: Placed


def explain(roles: Sequence[Role], policies: Mapping[int, Policy]) -> Iterator[Permission]:
    """The flattened permissions of ``roles``, in the order they count in; ``evaluate.flatten`` gives the same ones.

    Resources that cannot be evaluated are left out: they neither grant nor deny anything (rbac.md 6).
    """
    placed = [
        Placed(role, role_position, policies[number], policy_position)
        for role_position, role in enumerate(roles)
        for policy_position, number in enumerate(role.policies)
    ]
    for action, resources in deciding([one.policy for one in placed]).items():
        for resource, index in resources.items():
            if counts(resource):
                yield Permission(action, resource, placed[index])
