"""The force rule, row by row (agent-link.md 1.8)."""

import pytest
from msgspec.structs import replace

from secmon.agents.names import key_hash
from secmon.agents.registry.replacement import NEVER, ExistingAgent, RequestForce, may_replace, needs_deletion
from secmon.config.auth import Force
from secmon.security.rbac.evaluate import Scope

NOW = 100_000
KEY = "k" * 64
GONE = ExistingAgent(id=7, name="web", key=KEY, date_add=0, status="disconnected", disconnection_time=NOW - 3600)
FORCE = Force()


def test_an_agent_disconnected_long_enough_is_replaced() -> None:
    assert may_replace(GONE, FORCE, now=NOW).allowed
    assert may_replace(replace(GONE, status="never_connected", disconnection_time=0), FORCE, now=NOW).allowed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"disconnection_time": NOW - 3599}, "agent 007 (web) has not been disconnected for 3600 s"),
        ({"disconnection_time": 0}, "agent 007 (web) is connected"),
        ({"status": "active", "disconnection_time": 0}, "agent 007 (web) is connected"),
        ({"status": "active"}, "agent 007 (web) is connected"),
        ({"status": "pending"}, "agent 007 (web) is connected"),
        ({"date_add": NOW - 3599}, "agent 007 (web) has not been registered for 3600 s"),
    ],
)
def test_refusals_have_a_reason(change: dict[str, object], reason: str) -> None:
    verdict = may_replace(replace(GONE, **change), FORCE, now=NOW)
    assert (verdict.allowed, verdict.reason) == (False, reason)


def test_checks_can_be_off() -> None:
    assert not may_replace(GONE, NEVER, now=NOW).allowed
    connected = replace(GONE, status="active", date_add=NOW)
    assert may_replace(connected, Force(disconnected_time=None, after_registration_time=None), now=NOW).allowed
    assert may_replace(replace(GONE, date_add=NOW), Force(after_registration_time=0), now=NOW).allowed


def test_beyond_the_default_checks_only_what_may_be_deleted() -> None:
    off = RequestForce(disconnected_time=None, after_registration_time=None, deletable=Scope(frozenset({"007"})))
    connected = replace(GONE, status="active")
    assert not needs_deletion(connected, off, now=NOW)
    assert needs_deletion(replace(connected, id=8), off, now=NOW)
    assert not needs_deletion(replace(GONE, id=8), off, now=NOW)
    assert not needs_deletion(connected, Force(disconnected_time=None), now=NOW)


def test_an_agent_with_the_right_key_is_not_replaced_by_itself() -> None:
    right = key_hash(7, "web", KEY)
    assert not may_replace(GONE, FORCE, now=NOW, key_hash=right).allowed
    for other in (None, "", "0" * 40, "é"):
        assert may_replace(GONE, FORCE, now=NOW, key_hash=other).allowed
    assert may_replace(GONE, Force(key_mismatch=False), now=NOW, key_hash=right).allowed
