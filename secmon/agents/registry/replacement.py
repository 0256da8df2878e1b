"""Whether an enrolment may replace another agent with the same name, address or id (agent-link.md 1.8)."""

import hmac
from typing import NamedTuple

from msgspec import Struct

from secmon.agents.names import key_hash as hash_key
from secmon.agents.names import padded
from secmon.config.auth import Force
from secmon.security.rbac.evaluate import Scope

NEVER = Force(enabled=False)
DEFAULT = Force()


class RequestForce(Force, frozen=True, kw_only=True):
    """Checks of a request. Where they are weaker than the default ones, only ``deletable`` agents are replaced."""

    deletable: Scope


class ExistingAgent(Struct, frozen=True, kw_only=True):
    """The conflicting agent. Times in seconds since 1970; ``disconnection_time`` 0: connected or never."""

    id: int
    name: str
    key: str
    date_add: int
    status: str
    disconnection_time: int


class Verdict(NamedTuple):
    """The decision and its reason, a sentence for the log."""

    allowed: bool
    reason: str


def may_replace(old: ExistingAgent, force: Force, *, now: int, key_hash: str | None = None) -> Verdict:
    """Whether ``old`` may be removed for a new agent. ``key_hash``: the hash of the key that the new agent has.

    An agent that is connected is never replaced, whatever its ``disconnection_time`` (1.8, quirk).
    """
    who = f"agent {padded(old.id)} ({old.name})"
    if not force.enabled:
        return Verdict(False, f"{who} exists and replacing is disabled")
    limit = force.disconnected_time
    if limit is not None and old.status != "never_connected":
        if old.status != "disconnected" or old.disconnection_time <= 0:
            return Verdict(False, f"{who} is connected")
        if now - old.disconnection_time < limit:
            return Verdict(False, f"{who} has not been disconnected for {limit} s")
    limit = force.after_registration_time
    if limit is not None and now - old.date_add < limit:
        return Verdict(False, f"{who} has not been registered for {limit} s")
    # An empty hash matches no key.
    if (
        force.key_mismatch
        and key_hash
        and hmac.compare_digest(key_hash.encode(), hash_key(old.id, old.name, old.key).encode())
    ):
        return Verdict(False, f"{who} is the requesting agent, and has the right key already")
    return Verdict(True, f"{who} is replaced")


def needs_deletion(old: ExistingAgent, force: Force, *, now: int) -> bool:
    """Whether replacing ``old`` requires the permission to delete it, and the caller lacks it.

    A caller that may only create agents must not remove a working one by disabling the checks that protect it.
    """
    if not isinstance(force, RequestForce) or padded(old.id) in force.deletable:
        return False
    return not may_replace(old, DEFAULT, now=now).allowed
