"""A model of the agent's side of the synchronization (agent-data.md 2.5)."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


def sha1(*texts: str) -> str:
    return hashlib.sha1("".join(texts).encode()).hexdigest()


@dataclass
class ModelAgent:
    """One table of an agent: the data of each row's state by its key. Methods return the messages that it sends."""

    component: str
    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    round: int = 0

    def begin(self, round_: int) -> list[str]:
        """Begin a round of synchronization."""
        self.round = round_
        keys = self._keys()
        if not keys:
            return [self._message("integrity_clear", id=round_)]
        return [self._check("global", keys, keys[0], keys[-1], round_)]

    def answered(self, text: str) -> list[str]:
        """React to an answer of the manager: the text after ``#!-``."""
        component, protocol, verdict, body = text.split(" ", 3)
        assert (component, protocol) == (self.component, "dbsync")
        data = json.loads(body)
        assert set(data) == {"begin", "end", "id"}
        if data["id"] > self.round:
            return []
        self.round = data["id"]
        keys = [key for key in self._keys() if _bytes(data["begin"]) <= _bytes(key) <= _bytes(data["end"])]
        if verdict == "no_data":
            return [self.state(key) for key in keys]
        assert verdict == "checksum_fail"
        if len(keys) == 1 and data["begin"] == data["end"]:
            return [self.state(keys[0])]
        if len(keys) < 2:
            return []
        middle = len(keys) // 2
        left, right = keys[:middle], keys[middle:]
        return [
            self._check("left", left, data["begin"], left[-1], data["id"], tail=right[0]),
            self._check("right", right, right[0], data["end"], data["id"]),
        ]

    def _keys(self) -> list[str]:
        return sorted(self.rows, key=_bytes)

    def state(self, key: str) -> str:
        return self._message("state", **self.rows[key])

    def _check(self, kind: str, keys: Iterable[str], begin: str, end: str, round_: int, **tail: str) -> str:
        checksum = sha1(*(self.rows[key]["attributes"]["checksum"] for key in keys))
        return self._message(f"integrity_check_{kind}", begin=begin, end=end, checksum=checksum, id=round_, **tail)

    def _message(self, kind: str, **data: Any) -> str:
        return json.dumps({"component": self.component, "data": data, "type": kind})


def _bytes(key: str) -> bytes:
    return key.encode()
