"""A change of a file or of an entry of the registry, as an agent reports it (docs/reference/agent-data.md 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from secmon.inventory.integrity.entries import INDEX_VERSION, TYPES, EntryType
from secmon.inventory.message import MalformedMessage
from secmon.inventory.values import is_number

CHANGES = ("added", "modified", "deleted")


@dataclass(frozen=True, slots=True)
class IntegrityEvent:
    """``data`` of the message, with those members checked that no event goes without.

    ``reported_type``: the type of the entry as the agent names it. Attributes and ``audit`` are empty when the event
    has none.
    """

    data: Mapping[str, Any]
    path: str
    change: str
    type: EntryType
    reported_type: str
    attributes: Mapping[str, Any]
    old_attributes: Mapping[str, Any]
    audit: Mapping[str, Any]


def read_event(data: Mapping[str, Any]) -> IntegrityEvent:
    """The event in ``data``. Raises MalformedMessage."""
    attributes = _object(data, "attributes")
    kind, change, path = attributes.get("type"), data.get("type"), data.get("path")
    if not isinstance(kind, str) or kind not in TYPES:
        raise MalformedMessage("the type of the entry is not known")
    if not isinstance(change, str) or change not in CHANGES:
        raise MalformedMessage("the type of the event is not known")
    if not isinstance(path, str):
        raise MalformedMessage("path is missing")
    version = data.get("version")
    indexed = kind != "file" and is_number(version) and version >= INDEX_VERSION
    if indexed and not isinstance(data.get("index"), str):
        raise MalformedMessage("index is missing")
    return IntegrityEvent(
        data=data,
        path=path,
        change=change,
        type=TYPES[kind],
        reported_type=kind,
        attributes=attributes,
        old_attributes=_object(data, "old_attributes"),
        audit=_object(data, "audit"),
    )


def _object(data: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    """A member that is an object; an empty one for anything else."""
    found = data.get(member)
    return found if isinstance(found, dict) else {}
