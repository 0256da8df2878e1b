"""Events about sources that fall silent or are back (rules 240100 to 240104)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from secmon.agents.names import padded
from secmon.agents.sources.decide import Transition
from secmon.agents.sources.presence import PresentAgent
from secmon.agents.sources.reports import WHOLE
from secmon.agents.wire.address import bare
from secmon.agents.wire.location import source

LOCATION = "secmon-monitord"
MAX_EVENTS = 50
"""Transitions of one kind and round that have an event each; of the others there is one event together."""


def events_of(transitions: Sequence[Transition], agents: Mapping[int, PresentAgent]) -> Iterator[bytes]:
    """Lines of the event queue."""
    count: Counter[str] = Counter()
    for one in transitions:
        agent = agents.get(one.key.agent)
        if one.kind != "forgotten" and agent is not None:
            count[one.kind] += 1
            if count[one.kind] <= MAX_EVENTS:
                yield _line(one, agent)
    for kind, number in count.items():
        if number > MAX_EVENTS:
            yield f"1:{LOCATION}:secmon: Sources {kind}: '{number - MAX_EVENTS}' more at the same time.".encode()


def _line(one: Transition, agent: PresentAgent) -> bytes:
    place = source(padded(one.key.agent), agent.name, bare(agent.address))
    what = f"Agent {one.kind}: '{agent.name}'"
    if one.key.location != WHOLE:
        what = f"Source {one.kind}: '{_printable(one.key.location)}'"
    silence = f"no event for {one.seconds} s, expected within {one.limit} s"
    if one.kind == "back":
        silence = f"events again after {one.seconds} s"
    return f"1:{place}{LOCATION}:secmon: {what}, {silence}.".encode()


def _printable(location: str) -> str:
    """An agent names its locations itself: on one line."""
    return "".join(character if character.isprintable() else "?" for character in location)
