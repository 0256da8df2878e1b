"""A message of an agent as it is in the journal (agent-data.md 1.1)."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_HEAD = re.compile(
    r"(?P<queue>.):\[(?P<agent>[0-9]{1,9})\] (?P<location>\((?P<name>[^)]*)\) [^>]*->(?:[^|:]|\|.)*?):", re.DOTALL
)
_ESCAPED = re.compile(r"\|([|:])")


class MalformedMessage(Exception):
    """A message that says nothing usable; the text is the reason. It is counted and dropped (agent-data.md 12)."""


class UnsupportedMessage(Exception):
    """A message of a form that only old agents send; the text is the reason. It is counted and dropped quietly."""


class AgentMessage(msgspec.Struct, frozen=True):
    """A message of an agent. Invalid UTF-8 in it is replaced by U+FFFD.

    ``location`` is unescaped and begins with ``(name) address->``. ``received``: when the journal got it, in seconds
    since 1970. ``number``: its place in the journal.
    """

    queue: str
    agent: int
    name: str
    location: str
    body: str
    received: float
    number: int = 0

    @property
    def source(self) -> str:
        """The part of the location that the agent itself has named."""
        return self.location.partition("->")[2]

    def json(self) -> Mapping[str, Any]:
        """The body as an object. Raises MalformedMessage."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedMessage(f"it is not valid JSON: {error}") from None
        if not isinstance(found, dict):
            raise MalformedMessage("it is not a JSON object")
        return found


def read_message(data: bytes, received: float, number: int) -> AgentMessage | None:
    """The message in ``data``; None for what no agent has sent."""
    text = data.decode("utf-8", "replace")
    head = _HEAD.match(text)
    if head is None:
        return None
    location = head["location"]
    return AgentMessage(
        queue=head["queue"],
        agent=int(head["agent"]),
        name=head["name"],
        location=_ESCAPED.sub(r"\1", location) if "|" in location else location,
        body=text[head.end() :],
        received=received,
        number=number,
    )
