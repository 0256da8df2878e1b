"""The agent's side of the synchronization of a table (agent-data.md 2.2 to 2.5)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha1
from typing import Any, NamedTuple

Message = Mapping[str, Any]
"""The body of a message of type 5."""


class Row(NamedTuple):
    """A row: its checksum, and the members of a ``state`` message besides the index."""

    checksum: str
    state: Mapping[str, Any]


def digest(text: str) -> str:
    """SHA-1 in hex."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


class SynchronizedTable:
    """Rows by key, in the order of their bytes. The agent has the truth; the server's copy follows."""

    def __init__(self, component: str) -> None:
        self.component = component
        self._rows: dict[str, Row] = {}
        self._keys: list[str] | None = []
        self._round = 0

    @property
    def rows(self) -> Mapping[str, Row]:
        return self._rows

    def put(self, key: str, row: Row) -> None:
        if key not in self._rows:
            self._keys = None
        self._rows[key] = row

    def remove(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            self._keys = None

    def restore(self, rows: Mapping[str, Row]) -> None:
        """Replace all rows, as when the host is restored from a backup."""
        self._rows, self._keys = dict(rows), None

    def begin(self, number: int) -> Message:
        """Start the round ``number``, the time in seconds: the check of the whole table."""
        self._round = number
        keys = self._sorted()
        if not keys:
            return self._message("integrity_clear", {"id": number})
        return self._message("integrity_check_global", self._check(keys, 0, len(keys), number))

    def answer(self, command: str, data: Mapping[str, Any]) -> Iterator[Message]:
        """What follows an answer of the server, ``checksum_fail`` or ``no_data``. Raises KeyError for other data."""
        number, begin, end = data["id"], data["begin"], data["end"]
        if number > self._round:
            return
        self._round = number
        keys = self._sorted()
        first, last = (
            bisect_left(keys, begin.encode(), key=str.encode),
            bisect_right(keys, end.encode(), key=str.encode),
        )
        count = last - first
        if command == "no_data" or (count == 1 and begin == end):
            yield from (self._state(key) for key in keys[first:last])
        elif count > 1:
            middle = first + count // 2
            left = self._check(keys, first, middle, number) | {"begin": begin, "tail": keys[middle]}
            right = self._check(keys, middle, last, number) | {"end": end}
            yield self._message("integrity_check_left", left)
            yield self._message("integrity_check_right", right)

    def _sorted(self) -> list[str]:
        if self._keys is None:
            self._keys = sorted(self._rows, key=str.encode)
        return self._keys

    def _check(self, keys: Sequence[str], first: int, last: int, number: int) -> dict[str, Any]:
        checksum = digest("".join(self._rows[key].checksum for key in keys[first:last]))
        return {"begin": keys[first], "checksum": checksum, "end": keys[last - 1], "id": number}

    def _state(self, key: str) -> Message:
        return self._message("state", {"index": key, **self._rows[key].state})

    def _message(self, kind: str, data: Mapping[str, Any]) -> Message:
        return {"component": self.component, "data": data, "type": kind}
