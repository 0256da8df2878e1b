"""First-time keys (``if_fts``) and ignored keys (``ignore``, ``check_if_ignored``) of events (ruleset.md 8.1, 8.2)."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from secmon.engine.event import Event

KEY_LIMIT = 255
"""Bytes of a key."""
_FTS_FIELDS = ("id", "dstuser", "srcuser", "srcip", "dstip", "data", "system_name", "location")
_IGNORE_FIELDS = ("id", "dstuser", "srcip", "dstip", "data", "system_name", "location")
_ALIASES = {"user": "dstuser", "extra_data": "data"}


class KeyStore(Protocol):
    """Keeps new keys across restarts."""

    def append(self, line: bytes) -> None: ...


class NoKeyStore:
    """Keeps nothing: for sessions of logtest."""

    def append(self, line: bytes) -> None:
        """Drop the key."""


class FirstTimeKeys:
    """Keys of events that came before (``if_fts``)."""

    def __init__(
        self, known: Iterable[bytes] = (), store: KeyStore | None = None, *, compared: int = 32, prefix: int = 14
    ) -> None:
        """A key of a decoder of type ``ids`` is compared with the last ``compared`` keys, by ``prefix`` bytes."""
        self._keys = set(known)
        self._store: KeyStore = store or NoKeyStore()
        self._last: deque[bytes] = deque(maxlen=compared)
        self._prefix = prefix

    def add(self, event: Event) -> bool:
        """Record the key of ``event``; whether it is new. False for events whose decoder has no ``fts``."""
        decoder = event.decoder
        if decoder is None or not decoder.fts:
            return False
        key = _key(event, decoder.name, decoder.fts, decoder.order, _FTS_FIELDS)
        if key in self._keys:
            return False
        if event.category == "ids":
            similar = sum(one[: self._prefix + 1] == key[: self._prefix + 1] for one in self._last)
            if similar > 2:
                key = key[: self._prefix]
                if key in self._keys:
                    return False
        self._keys.add(key)
        self._last.append(key)
        self._store.append(key)
        return True


class IgnoredKeys:
    """Keys that ``ignore`` of one rule sets and ``check_if_ignored`` of other rules tests (ruleset.md 14, Q12)."""

    def __init__(self, known: Iterable[bytes] = (), store: KeyStore | None = None) -> None:
        self._keys = set(known)
        self._store: KeyStore = store or NoKeyStore()

    def add(self, event: Event, names: Sequence[str]) -> None:
        """Ignore events that have the same values of the fields ``names``."""
        key = self._key(event, names)
        if key not in self._keys:
            self._keys.add(key)
            self._store.append(key)

    def contains(self, event: Event, names: Sequence[str]) -> bool:
        """Whether the values of ``event`` in the fields ``names`` are ignored."""
        return self._key(event, names) in self._keys

    def _key(self, event: Event, names: Sequence[str]) -> bytes:
        return _key(event, event.decoder.name if event.decoder else "", names, names, _IGNORE_FIELDS)


def _key(event: Event, decoder: str, names: Sequence[str], order: Sequence[str], static: Sequence[str]) -> bytes:
    """The decoder's name, then each field of ``static`` (empty unless in ``names``), then the dynamic fields."""
    chosen = {_ALIASES.get(name, name) for name in names}
    parts = [decoder.encode()]
    parts += [(static_or_location(event, name) or b"") if name in chosen else b"" for name in static]
    dynamic = [name for name in order if name in chosen and name not in static and name != "name"]
    parts += [value for name in dynamic if (value := event.dynamic_value(name.lower())) is not None]
    return b" ".join(parts)[:KEY_LIMIT].replace(b"\n", b" ")


def static_or_location(event: Event, name: str) -> bytes | None:
    """The value of a static field, or of ``location``; None when the event has none."""
    return event.location if name == "location" else event.static.get(name)
