"""Messages of configuration assessment (agent-data.md 5.1). Members that are not named here are ignored."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from secmon.inventory.message import AgentMessage, MalformedMessage

MAX_POLICY_ID = 4080
"""Bytes of the id of a policy: the longest that a request for a dump can name (agent-data.md 5.4)."""

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Score = Annotated[float, Meta(ge=0, le=100)]


class Check(Struct, frozen=True, kw_only=True):
    """A check of a policy. ``result`` is absent when the check could not be evaluated.

    ``compliance``: an object with texts and numbers, ``rules``: an array of texts. Other values are ignored in both.
    """

    id: Number
    title: str
    description: str | None = None
    rationale: str | None = None
    remediation: str | None = None
    references: str | None = None
    file: str | None = None
    directory: str | None = None
    process: str | None = None
    registry: str | None = None
    command: str | None = None
    result: str | None = None
    reason: str | None = None
    condition: str | None = None
    compliance: Any = None
    rules: Any = None


class CheckMessage(Struct, frozen=True, kw_only=True, tag_field="type", tag="check"):
    """The result of a check. ``id`` is that of the scan, ``policy`` the name of the policy."""

    id: Number
    policy: str
    policy_id: str
    check: Check


class Summary(Struct, frozen=True, kw_only=True, tag_field="type", tag="summary"):
    """The figures of a scan. Times are seconds since 1970 by the agent's clock."""

    scan_id: Number
    name: str
    policy_id: str
    file: str
    passed: Number
    failed: Number
    invalid: Number
    total_checks: Number
    score: Score
    start_time: Number
    end_time: Number
    hash: str
    hash_file: str
    description: str | None = None
    references: str | None = None
    first_scan: Any = None
    force_alert: Any = None


class DumpEnd(Struct, frozen=True, kw_only=True, tag_field="type", tag="dump_end"):
    """All checks of the policy were sent, with the id of this scan."""

    policy_id: str
    elements_sent: Number
    scan_id: Number


class Policies(Struct, frozen=True, kw_only=True, tag_field="type", tag="policies"):
    """The ids of the policies that the agent has. Elements that are not texts are ignored."""

    policies: list[Any]


Report = CheckMessage | Summary | DumpEnd | Policies


def read_report(message: AgentMessage) -> Report:
    """The body of ``message``. Raises MalformedMessage."""
    try:
        found: Report = msgspec.convert(message.json(), Report)
    except msgspec.ValidationError as error:
        raise MalformedMessage(str(error)) from None
    if not isinstance(found, Policies) and not _is_policy_id(found.policy_id):
        raise MalformedMessage(f"the id of its policy is empty, has a NUL or more than {MAX_POLICY_ID} bytes")
    return found


def _is_policy_id(text: str) -> bool:
    return 0 < len(text.encode()) <= MAX_POLICY_ID and "\0" not in text
