"""Events that were read from the journals and are not analysed yet, in chunks; decoder processes look ahead at some."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from secmon.common.clock import Clock
from secmon.engine.engine import Engine
from secmon.engine.input.event_feed import EventFeed
from secmon.engine.lookahead.decoder_pool import DecoderPool
from secmon.engine.lookahead.stateless import Lookahead, decode_message

CHUNK_EVENTS = 250
CHUNK_BYTES = 64 << 10
MIN_SUBMITTED = 50
"""A single chunk of fewer events is analysed at once: the pool would only delay it."""
_DECODED_AT_ONCE = 20
"""Events that the analysis thread decodes between two looks for the result it waits for."""
_SPARE_CHUNKS = 2
"""Chunks that are read besides those that the pool holds."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Consecutive events of one journal and one moment. ``number``: that of its batch in the pool.

    ``of_decoded_events``: the inventory has decoded them, so that there is nothing to do ahead.
    ``decoded``: the first events, decoded by the analysis thread while it had to wait; None where that failed.
    """

    journal: int
    first: int
    events: list[bytes]
    moment: datetime
    of_decoded_events: bool = False
    number: int | None = None
    decoded: list[Lookahead | None] = field(default_factory=list)

    @property
    def to_decode(self) -> bool:
        """Whether this thread can decode events of it ahead of their turn."""
        return self.number is None and not self.of_decoded_events and len(self.decoded) < len(self.events)


class Backlog:
    """A queue of chunks. For the analysis thread."""

    def __init__(self, feed: EventFeed, clock: Clock, pool: DecoderPool | None) -> None:
        self._feed, self._clock, self._pool = feed, clock, pool
        self._chunks: deque[Chunk] = deque()

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self._chunks)

    def take(self) -> Chunk:
        """Remove and return the next chunk."""
        return self._chunks.popleft()

    def read(self) -> None:
        """Append new events of the journals. Raises OSError."""
        for journal, blocks in self._feed.read():
            for block in blocks:
                moment = datetime.fromtimestamp(min(block.at, self._clock.now().timestamp())).astimezone()
                first = block.first
                for events in _split(block.events):
                    self._chunks.append(Chunk(journal, first, events, moment, journal == self._feed.of_decoded_events))
                    first += len(events)

    @property
    def low(self) -> bool:
        """Whether there are fewer chunks than keep the pool busy."""
        return (
            self._pool is not None and self._pool.ready > 0 and len(self._chunks) < self._pool.capacity + _SPARE_CHUNKS
        )

    def submit(self) -> None:
        """Give the next chunks to the pool, as many as it accepts."""
        pool, chunks = self._pool, self._chunks
        if pool is None:
            return
        pool.maintain()
        if len(chunks) == 1 and len(chunks[0].events) < MIN_SUBMITTED:
            return
        for chunk in chunks:
            if chunk.number is None and not chunk.decoded and not chunk.of_decoded_events:
                chunk.number = pool.submit(chunk.events, chunk.moment)
                if chunk.number is None:
                    return

    def lookahead(self, chunk: Chunk, engine: Engine) -> Sequence[bytes | Lookahead | None]:
        """What is known of the first events of ``chunk``: encoded by a decoder process, or decoded by this thread.

        While a result is pending, this thread decodes events that are not in the pool.
        """
        pool, number = self._pool, chunk.number
        if pool is None or number is None:
            return chunk.decoded
        while pool.pending(number):
            other = next((one for one in self._chunks if one.to_decode), None)
            if other is None:
                break
            start = len(other.decoded)
            for data in other.events[start : start + _DECODED_AT_ONCE]:
                other.decoded.append(_decoded(engine, data, other.moment))
        return pool.results(number)

    def invalidate(self) -> None:
        """Drop all results: they belong to another ruleset."""
        for chunk in self._chunks:
            chunk.number = None
            chunk.decoded.clear()


def _decoded(engine: Engine, data: bytes, moment: datetime) -> Lookahead | None:
    try:
        return decode_message(engine, data, moment)
    except Exception:  # noqa: BLE001 - the same error comes again at the event's turn, where it is logged and counted
        return None


def _split(events: list[bytes]) -> Iterator[list[bytes]]:
    """``events`` in order, each part within CHUNK_EVENTS and, unless it is one event, CHUNK_BYTES."""
    start = size = 0
    for at, event in enumerate(events):
        if at > start and (at - start >= CHUNK_EVENTS or size + len(event) > CHUNK_BYTES):
            yield events[start:at]
            start, size = at, 0
        size += len(event)
    if start < len(events):
        yield events[start:]
