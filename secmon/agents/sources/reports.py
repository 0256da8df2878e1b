"""What a node says of the sources of its agents, and what the master says back."""

from typing import NamedTuple

from msgspec import Struct

WHOLE = ""
"""The location of an agent as a whole: an event from any of its locations."""
MAX_ROWS = 10_000
"""Sources in one report; what is left follows in the next one."""
MAX_SILENT = 10_000
"""Silent sources that are remembered. Beyond, none is reported."""


class SourceKey(NamedTuple):
    """A source: the number of an agent, and the location of its events; :data:`WHOLE` for all of them."""

    agent: int
    location: str


class SourceRow(Struct, array_like=True, frozen=True):
    """A source as a node knows it. Times are seconds since 1970, by the clock of that node."""

    agent: int
    location: str
    first: int
    last: int
    """The times of its first and its latest event."""
    hours: int
    """Hours in which it has sent events."""
    pause: int
    """Seconds of its longest usual pause."""
    silent_since: int = 0
    """Time of its latest event when the master found it silent; 0: it is not silent."""

    @property
    def key(self) -> SourceKey:
        return SourceKey(self.agent, self.location)


class SourceReport(Struct, frozen=True, kw_only=True):
    """Sources of a node that have sent events after a given time, the longest silent ones first."""

    now: int
    """The node's clock."""
    reached: int
    """Everything that was received before this time is analysed."""
    since: int
    """Since this time everything was received and analysed in time."""
    epoch: int
    """Since then the clock was not set; another value: all times from before are others now."""
    rows: list[SourceRow] = []
    more: bool = False
    """Further sources have sent events after the last of these."""


class SourceQuestion(Struct, frozen=True, kw_only=True):
    """Which sources of a node: those with events at ``after`` or later.

    ``silent``: the sources that are silent, with the times of their latest events, for the node to remember; None: as
    before.
    """

    after: int = 0
    silent: list[tuple[int, str, int]] | None = None
