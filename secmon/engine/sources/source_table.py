"""When each source of events has last sent one, and how long it usually pauses (docs/silent-sources.md)."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from secmon.agents.sources.reports import WHOLE, SourceRow
from secmon.engine.event import printable
from secmon.engine.input.predecode import agent_of, split_message

HOUR, DAY = 3600, 24
"""Seconds of an hour, hours of a day."""
DAYS = 14
"""Days with events whose pauses are remembered."""
KEPT_SECONDS = DAYS * DAY * HOUR
"""A source without an event for so long is forgotten."""
IRREGULAR_HOURS, IRREGULAR_SECONDS = 24, 2 * DAY * HOUR
"""One with events in fewer hours is forgotten sooner: names with a date in them come and go."""
MAX_LOCATIONS = 100
"""Locations of one agent that are watched; an agent names them itself."""
MAX_LOCATION_BYTES = 512
MAX_PREFIXES, MAX_PREFIX_BYTES = 100_000, 256
"""Beginnings of messages whose source is known without a search."""
_BAR = ord("|")
_OWN = b"secmon-"
"""Locations of messages about an agent that a node has made itself."""


class Pauses(Struct, array_like=True):
    """What is kept of a source. Times in seconds since 1970; ``hour`` is the number of the latest hour with events."""

    agent: int
    location: str
    first: int
    last: int
    hour: int = 0
    hours: int = 0
    longest: int = 0
    """The longest pause of the latest day with events."""
    earlier: list[int] = []
    """The longest pauses of the days with events before, oldest first."""
    silent_since: int = 0

    def usual(self) -> int:
        """The longest pause of the last days but that of the worst day, which may have been an outage."""
        known = sorted([*self.earlier, self.longest])
        return known[-2] if len(known) > 1 else known[-1]

    def note(self, now: int, *, begin: int) -> None:
        """An event at ``now``. A pause that began before ``begin`` is not the source's own."""
        pause = now - self.last if self.last >= begin else 0
        self.last = now
        if now // HOUR != self.hour:
            if self.hours and now // HOUR // DAY != self.hour // DAY:
                self.earlier = [*self.earlier, self.longest][-DAYS:]
                self.longest = 0
            self.hour = now // HOUR
            self.hours += 1
        if pause > self.longest:
            self.longest = pause

    def row(self) -> SourceRow:
        return SourceRow(self.agent, self.location, self.first, self.last, self.hours, self.usual(), self.silent_since)


class _Agent:
    """The sources of an agent. ``begin``: since then it is connected here; None: it is not."""

    __slots__ = ("begin", "locations", "whole")

    def __init__(self, number: int, now: int) -> None:
        self.begin: int | None = now
        self.whole = Pauses(number, WHOLE, now, now)
        self.locations: dict[str, Pauses] = {}

    def sources(self) -> list[Pauses]:
        return [self.whole, *self.locations.values()]


class _Known:
    """A source, and its agent; without one its events are not watched."""

    __slots__ = ("agent", "last", "source")

    def __init__(self, agent: _Agent | None, source: Pauses | None) -> None:
        self.agent, self.source = agent, source
        self.last = 0


_UNWATCHED = _Known(None, None)


class SourceTable:
    """The sources of the agents whose events this node analyses.

    The analysis thread notes events; all else may be called from another thread: each step there is one operation on a
    dictionary, or on a copy of its values.
    """

    def __init__(self, begin: int) -> None:
        self.begin = begin
        """Since then all events are analysed in time: pauses that began before are not learned."""
        self.refused = 0
        """Events from locations that are not watched: too many of one agent, or too long."""
        self._agents: dict[int, _Agent] = {}
        self._known: dict[bytes, _Known] = {}

    def note(self, messages: Iterable[bytes], now: int) -> None:
        """Messages of agents, received at ``now``. Of those of one source in a second the first one counts."""
        known = self._known
        for data in messages:
            end = data.find(b":", 2)
            while end > 0 and data[end - 1] == _BAR:  # an escaped colon: "|:"
                end = data.find(b":", end + 1)
            found = known.get(data[2:end]) or self._find(data, end, now)
            if now > found.last:
                self._update(found, now)

    def _update(self, found: _Known, now: int) -> None:
        agent, source = found.agent, found.source
        if agent is None or source is None:
            return
        found.last = now
        begin = now if agent.begin is None else max(self.begin, agent.begin)
        for one in (source, agent.whole):
            if now > one.last or not one.hours:
                one.note(now, begin=begin)

    def _find(self, data: bytes, end: int, now: int) -> _Known:
        """The source of a message whose beginning, up to ``end``, is new; it is remembered if it is short."""
        message = split_message(data)
        found = _UNWATCHED
        if message is not None and (number := int(agent_of(message.location))):
            location = message.location.partition(b"->")[2]
            if location and not location.startswith(_OWN):
                found = self._source(number, location, now)
        if 0 < end <= MAX_PREFIX_BYTES:
            if len(self._known) >= MAX_PREFIXES:
                self._known.clear()
            self._known[data[2:end]] = found
        return found

    def _source(self, number: int, location: bytes, now: int) -> _Known:
        agent = self._agents.get(number)
        if agent is None:
            agent = self._agents[number] = _Agent(number, now)
        name = printable(location)
        source = agent.locations.get(name)
        if source is None:
            if len(agent.locations) >= MAX_LOCATIONS or len(location) > MAX_LOCATION_BYTES:
                self.refused += 1
                return _UNWATCHED
            source = agent.locations[name] = Pauses(number, name, now, now)
        return _Known(agent, source)

    def __len__(self) -> int:
        return sum(len(agent.locations) + 1 for agent in list(self._agents.values()))

    def rows(self, after: int) -> list[SourceRow]:
        """Sources with events at ``after`` or later, the longest silent ones first."""
        found = [one.row() for one in self._every() if one.last >= after and one.hours]
        found.sort(key=lambda row: row.last)
        return found

    def mark(self, silent: Collection[tuple[int, str, int]]) -> None:
        """Remember which sources the master has found silent: agent, location, time of the latest event."""
        wanted = {(agent, location): last for agent, location, last in silent}
        for one in self._every():
            one.silent_since = wanted.get((one.agent, one.location), 0)

    def connected(self, registered: Collection[int], here: Collection[int], now: int) -> None:
        """Forget agents that are not ``registered``; those that are ``here`` are connected to this node."""
        for number, agent in list(self._agents.items()):
            if number not in registered:
                del self._agents[number]
            elif number not in here:
                agent.begin = None
            elif agent.begin is None:
                agent.begin = now
        self._forget(now)
        self._known.clear()

    def _forget(self, now: int) -> None:
        for agent in list(self._agents.values()):
            for name, one in list(agent.locations.items()):
                if now - one.last > (IRREGULAR_SECONDS if one.hours < IRREGULAR_HOURS else KEPT_SECONDS):
                    del agent.locations[name]

    def kept(self) -> list[Pauses]:
        """What the next process is to know."""
        return [one for one in self._every() if one.hours]

    def restore(self, kept: Sequence[Pauses], now: int) -> None:
        """What an earlier process has kept. Times after ``now`` are wrong."""
        for one in kept:
            agent = self._agents.setdefault(one.agent, _Agent(one.agent, now))
            agent.begin = None
            one.last = min(one.last, now)
            if one.location == WHOLE:
                agent.whole = one
            elif len(agent.locations) < MAX_LOCATIONS:
                agent.locations[one.location] = one

    def clamp(self, now: int) -> None:
        """The clock was set back to ``now``: no event is later."""
        for one in self._every():
            one.last = min(one.last, now)
        self._known.clear()

    def _every(self) -> Iterator[Pauses]:
        for agent in list(self._agents.values()):
            yield from agent.sources()
