"""Events of configuration assessment, as rules see them (agent-data.md 5.5)."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from secmon.inventory.assessment.messages import CheckMessage, Summary
from secmon.inventory.assessment.stored_policies import MAX_ITEMS, compliance_of, result_of
from secmon.inventory.decoded_event import DecodedEvent, event_of
from secmon.inventory.message import AgentMessage

DECODER = "sca"


def summary_event(message: AgentMessage, found: Summary) -> DecodedEvent:
    """The event of ``found``, which is the body of ``message``."""
    given = {
        "type": "summary",
        "scan_id": found.scan_id,
        "policy": found.name,
        "description": found.description,
        "policy_id": found.policy_id,
        "passed": found.passed,
        "failed": found.failed,
        "invalid": found.invalid,
        "total_checks": found.total_checks,
        "score": int(found.score),
        "file": found.file,
    }
    fields = [(f"sca.{name}", str(value)) for name, value in given.items() if value is not None]
    return event_of(message, DECODER, fields, message.body)


def check_event(message: AgentMessage, found: CheckMessage, previous: str | None) -> DecodedEvent:
    """The event of ``found``, which is the body of ``message``. ``previous``: the result before, if there was one."""
    fields = [("sca.type", "check"), ("sca.scan_id", str(found.id)), ("sca.policy", found.policy)]
    fields += ((f"sca.check.{name}", value) for name, value in _check_fields(found, previous) if value is not None)
    return event_of(message, DECODER, fields, message.body)


def _check_fields(found: CheckMessage, previous: str | None) -> Iterator[tuple[str, str | None]]:
    check = found.check
    yield "id", str(check.id)
    for name in ("title", "description", "rationale", "remediation"):
        yield name, getattr(check, name)
    for standard, values in islice(compliance_of(check), MAX_ITEMS):
        yield f"compliance.{standard}", values
    yield "references", check.references
    for name in ("file", "directory", "registry", "process", "command"):
        text: str | None = getattr(check, name)
        # An array travels as its JSON: the document of an alert shows it as an array again.
        yield name, None if text is None else msgspec.json.encode(text.split(",")).decode()
    yield "result", result_of(check)
    yield "reason", check.reason
    yield "previous_result", previous
