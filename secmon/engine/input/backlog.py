"""What was read from the journals and is not analysed yet, in pieces; helpers look at some ahead of their turn."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from secmon.common.clock import Clock
from secmon.engine.analysis import Engine
from secmon.engine.input.journals import Feed
from secmon.engine.lookahead.pool import Crew
from secmon.engine.lookahead.prepare import Prepared, prepare

PIECE_EVENTS = 250
"""Events that are looked at ahead of their turn together."""
PIECE_BYTES = 64 << 10
LEAST_AHEAD = 50
"""Fewer events alone are analysed at once: to hand them out would only delay them."""
_AT_ONCE = 20
"""Events that the engine prepares itself between two looks for the answer it waits for."""
_SPARE = 2
"""Pieces that are read besides those that helpers have in hand."""


@dataclass(slots=True, eq=False)
class Piece:
    """Events of one journal and one moment. ``number``: under which a helper has them.

    ``own``: what the engine has prepared of the first of them while it had to wait; None where that was not possible.
    """

    journal: int
    first: int
    events: list[bytes]
    moment: datetime
    number: int | None = None
    own: list[Prepared | None] = field(default_factory=list)


class Backlog:
    """For the engine's thread."""

    def __init__(self, feed: Feed, clock: Clock, crew: Crew | None) -> None:
        self._feed, self._clock, self._crew = feed, clock, crew
        self._pieces: deque[Piece] = deque()

    def __len__(self) -> int:
        """Pieces."""
        return len(self._pieces)

    def take(self) -> Piece:
        """The next piece."""
        return self._pieces.popleft()

    def read(self) -> None:
        """Take what has come into the journals. Raises OSError."""
        for journal, blocks in self._feed.read():
            for block in blocks:
                moment = datetime.fromtimestamp(min(block.at, self._clock.now().timestamp())).astimezone()
                first = block.first
                for events in _cut(block.events):
                    self._pieces.append(Piece(journal, first, events, moment))
                    first += len(events)

    @property
    def short(self) -> bool:
        """Whether there is less than would keep all helpers busy."""
        return self._crew is not None and self._crew.ready > 0 and len(self._pieces) < self._crew.depth + _SPARE

    def hand_out(self) -> None:
        """Give helpers what comes next, as much as they take."""
        crew, pieces = self._crew, self._pieces
        if crew is None:
            return
        crew.tend()
        if len(pieces) == 1 and len(pieces[0].events) < LEAST_AHEAD:
            return
        for piece in pieces:
            if piece.number is None and not piece.own:
                piece.number = crew.hand_out(piece.events, piece.moment)
                if piece.number is None:
                    return

    def found_out(self, piece: Piece, engine: Engine) -> Sequence[bytes | Prepared | None]:
        """What is known ahead about the first events of ``piece``, packed by a helper or prepared by the engine itself.

        While the answer of a helper is not there, the engine prepares events that nobody has in hand.
        """
        crew, number = self._crew, piece.number
        if crew is None or number is None:
            return piece.own
        while crew.awaited(number):
            other = next((one for one in self._pieces if one.number is None and len(one.own) < len(one.events)), None)
            if other is None:
                break
            start = len(other.own)
            for data in other.events[start : start + _AT_ONCE]:
                other.own.append(_prepared(engine, data, other.moment))
        return crew.answers(number)

    def void(self) -> None:
        """Another ruleset is in force: nothing is known ahead."""
        for piece in self._pieces:
            piece.number = None
            piece.own.clear()


def _prepared(engine: Engine, data: bytes, moment: datetime) -> Prepared | None:
    try:
        return prepare(engine, data, moment)
    except Exception:  # noqa: BLE001 - whatever it is, it comes again at the event's turn, where it is logged and counted
        return None


def _cut(events: list[bytes]) -> Iterator[list[bytes]]:
    """``events`` in order, so many at once that they are neither too many nor too long."""
    start = size = 0
    for at, event in enumerate(events):
        if at > start and (at - start >= PIECE_EVENTS or size + len(event) > PIECE_BYTES):
            yield events[start:at]
            start, size = at, 0
        size += len(event)
    if start < len(events):
        yield events[start:]
