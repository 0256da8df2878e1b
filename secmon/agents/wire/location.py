"""Locations of events in lines of the event queue (agent-link.md 11.1, 11.2)."""

import re
from typing import NamedTuple

_ESCAPED = re.compile(r"\|([|:])")
_END = re.compile(r"(?:[^|:]|\|.)*?(?=:)", re.DOTALL)


class QueueLine(NamedTuple):
    """An event: one-character queue, unescaped location, log."""

    queue: str
    location: str
    log: str


def escape(text: str) -> str:
    """``text`` with its bars and colons escaped."""
    return text.replace("|", "||").replace(":", "|:")


def unescape(text: str) -> str:
    """The reverse of :func:`escape`; a bar that escapes nothing is kept."""
    return _ESCAPED.sub(r"\1", text)


def source(agent: str, name: str, address: str) -> str:
    """The prefix of the location of an agent's event; ``address`` has no prefix length."""
    return escape(f"[{agent}] ({name}) {address}") + "->"


def split(line: str) -> QueueLine | None:
    """Queue, location and log of ``<queue>:<escaped location>:<log>``; None for other lines."""
    if line[1:2] != ":":
        return None
    end = location_end(line, 2)
    if end < 0:
        return None
    return QueueLine(line[0], unescape(line[2:end]), line[end + 1 :])


def location_end(line: str, start: int) -> int:
    """Index of the first colon from ``start`` on that no bar escapes; -1 without one."""
    found = _END.match(line, start)
    return found.end() if found else -1
