"""Fields that events of one transaction share (decoder option ``accumulate``, ruleset.md 8.4)."""

from dataclasses import dataclass, field

from secmon.engine.event import Event

LIFETIME = 120
"""Seconds that an entry lives after its last event."""
VALUE_LIMIT = 80
"""Bytes of a value that is kept."""
PURGE_EVERY = 200
"""Look-ups between two purges."""
_FIELDS = ("dstuser", "srcuser", "dstip", "srcip", "dstport", "srcport", "data")

AccumulatorKey = tuple[bytes, str, bytes]
"""Host, decoder and id of a transaction."""


@dataclass(slots=True)
class _Entry:
    updated: int
    values: dict[str, bytes] = field(default_factory=dict)


class Accumulator:
    """Fields of events by host, decoder and id."""

    def __init__(self) -> None:
        self._entries: dict[AccumulatorKey, _Entry] = {}
        self._lookups = 0

    def apply(self, event: Event) -> None:
        """Fill the missing fields of ``event`` from earlier events of its id, and keep its own."""
        decoder, number = event.decoder, event.static.get("id")
        if decoder is None or not decoder.accumulate or number is None:
            return
        self._lookups += 1
        if self._lookups % PURGE_EVERY == 0:
            self._purge(event.received)
        key = (event.hostname, decoder.name, number)
        entry = self._entries.get(key)
        if entry is None or event.received - entry.updated > LIFETIME:
            entry = self._entries[key] = _Entry(event.received)
        for name in _FIELDS:
            own, kept = event.static.get(name), entry.values.get(name)
            if not own and kept:
                event.static[name] = kept
            elif own and not kept and len(own) <= VALUE_LIMIT:
                entry.values[name] = own
        entry.updated = event.received

    def __len__(self) -> int:
        return len(self._entries)

    def _purge(self, now: int) -> None:
        self._entries = {key: one for key, one in self._entries.items() if now - one.updated <= LIFETIME}
