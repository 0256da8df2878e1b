"""What the engine has seen before: first times, muted events, last contents (ruleset.md 8.1 to 8.3)."""

import os
import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from secmon.common.atomic import write_file
from secmon.engine.event import Event

KEY_LIMIT = 255
"""Bytes of a key."""
DIFF_LIMIT = 65536
"""Events as long as this are never compared."""
_NO_NAME = re.compile(rb"[\x00-\x1f/\x7f]")
_LONGEST_NAME = 200
"""Bytes of a host's name that name its folder."""
_ORDER = ("id", "dstuser", "srcuser", "srcip", "dstip", "data", "system_name", "location")
_ALIASES = {"user": "dstuser", "extra_data": "data"}
_IGNORE_ORDER = ("id", "dstuser", "srcip", "dstip", "data", "system_name", "location")


class Journal(Protocol):
    """Where new keys are written down."""

    def append(self, line: bytes) -> None: ...


class NoJournal:
    """For sessions of logtest: nothing outlives them."""

    def append(self, line: bytes) -> None:
        """Nothing."""


class FirstTimes:
    """Keys of events that came before (``if_fts``)."""

    def __init__(
        self, known: Iterable[bytes] = (), journal: Journal | None = None, *, compared: int = 32, alike: int = 14
    ) -> None:
        """``compared``: last keys that one of a decoder of type ``ids`` is held against; ``alike``: leading bytes."""
        self._keys = set(known)
        self._journal: Journal = journal or NoJournal()
        self._last: deque[bytes] = deque(maxlen=compared)
        self._alike = alike

    def new(self, event: Event) -> bool:
        """Whether nothing like this event came before; it is remembered."""
        decoder = event.decoder
        if decoder is None or not decoder.fts:
            return False
        key = _key(event, decoder.name, decoder.fts, decoder.order, _ORDER)
        if key in self._keys:
            return False
        if event.category == "ids":
            similar = sum(one[: self._alike + 1] == key[: self._alike + 1] for one in self._last)
            if similar > 2:
                key = key[: self._alike]
                if key in self._keys:
                    return False
        self._keys.add(key)
        self._last.append(key)
        self._journal.append(key)
        return True


class Muted:
    """Tuples of events that ``ignore`` of a rule has muted for ``check_if_ignored`` of others (ruleset.md 14, Q12)."""

    def __init__(self, known: Iterable[bytes] = (), journal: Journal | None = None) -> None:
        self._keys = set(known)
        self._journal: Journal = journal or NoJournal()

    def mute(self, event: Event, names: Sequence[str]) -> None:
        key = self._tuple(event, names)
        if key not in self._keys:
            self._keys.add(key)
            self._journal.append(key)

    def muted(self, event: Event, names: Sequence[str]) -> bool:
        return self._tuple(event, names) in self._keys

    def _tuple(self, event: Event, names: Sequence[str]) -> bytes:
        return _key(event, event.decoder.name if event.decoder else "", names, names, _IGNORE_ORDER)


def _key(event: Event, decoder: str, names: Sequence[str], order: Sequence[str], static: Sequence[str]) -> bytes:
    chosen = {_ALIASES.get(name, name) for name in names}
    parts = [decoder.encode()]
    parts += [(value_of(event, name) or b"") if name in chosen else b"" for name in static]
    dynamic = [name for name in order if name in chosen and name not in static and name != "name"]
    parts += [value for name in dynamic if (value := event.dynamic_value(name.lower())) is not None]
    return b" ".join(parts)[:KEY_LIMIT].replace(b"\n", b" ")


def value_of(event: Event, name: str) -> bytes | None:
    """A static field, or the location."""
    return event.location if name == "location" else event.static.get(name)


class LastContents:
    """The last log of each rule and host, in files (``check_diff``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def changed(self, event: Event, rule: int) -> bool:
        """Whether the last content was another one; it is replaced. The old one stands in the event then."""
        if len(event.log) >= DIFF_LIMIT:
            return False
        path = self._path(event, rule)
        old = path.read_bytes() if path.exists() else None
        if old == event.log:
            return False
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        write_file(path, event.log, 0o640)
        if old is None:
            return False
        event.previous_log = old
        event.previous = [b"Previous output:", old]
        return True

    def _path(self, event: Event, rule: int) -> Path:
        """The file for a rule and a host; whatever the name of the host, it is one folder below that of all."""
        host = _NO_NAME.sub(b"_", event.hostname).lstrip(b".")[:_LONGEST_NAME] or b"_"
        return self._folder / os.fsdecode(host) / str(rule) / "last-entry"
