"""Messages of the synchronization, type ``5`` (docs/reference/agent-data.md 2.2)."""

from collections.abc import Mapping
from typing import Any

from secmon.inventory.changes import Changes
from secmon.inventory.components import COMPONENTS, Component
from secmon.inventory.integrity.entries import entry_row
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.schema import fim_entries
from secmon.inventory.synchronization.checks import Check, check, clear
from secmon.inventory.system.states import save_state
from secmon.inventory.values import MAX_INTEGER

_CHECK = "integrity_check_"


def synchronize(message: AgentMessage, changes: Changes) -> None:
    """Answers a check, clears a table, or saves the row of a state.

    A malformed message is never answered: the agent would take the answer for a comparison. Raises MalformedMessage.
    """
    body = message.json()
    name, kind, data = body.get("component"), body.get("type"), body.get("data")
    component = COMPONENTS.get(name) if isinstance(name, str) else None
    if component is None:
        raise MalformedMessage("the component is not known")
    changes.kind = component.name
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise MalformedMessage("type or data is missing")
    if kind == "state":
        _save(component, message.agent, data, changes)
    elif kind == "integrity_clear":
        clear(component, message.agent, _round(data), changes)
    elif kind.startswith(_CHECK):
        check(component, message, _check(kind.removeprefix(_CHECK), data), changes)
    else:
        raise MalformedMessage("the type of the message is not known")


def _save(component: Component, agent: int, data: Mapping[str, Any], changes: Changes) -> None:
    if component.table is not fim_entries:
        save_state(component.table, agent, data, changes)
    elif row := entry_row(agent, data):
        changes.save(fim_entries, row)


def _check(kind: str, data: Mapping[str, Any]) -> Check:
    tail = data.get("tail")
    if not (tail is None or isinstance(tail, str)):
        raise MalformedMessage("tail is not a text")
    return Check(
        kind=kind,
        round=_round(data),
        begin=_text(data, "begin"),
        end=_text(data, "end"),
        tail=tail,
        checksum=_text(data, "checksum"),
    )


def _round(data: Mapping[str, Any]) -> int:
    """The number of the round, which the answer must repeat."""
    found = data.get("id")
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > MAX_INTEGER:
        raise MalformedMessage("id is not an integer of 64 bits")
    return found


def _text(data: Mapping[str, Any], member: str) -> str:
    value = data.get(member)
    if not isinstance(value, str):
        raise MalformedMessage(f"{member} is not a text")
    return value
