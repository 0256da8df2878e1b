"""Files and entries of the registry that an agent watches (agent-data.md 3)."""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import md5, sha1, sha256
from random import Random
from typing import Any

from secmon.simulator.host.synchronized_table import Row, SynchronizedTable, digest
from secmon.simulator.profiles import Profile

Event = Mapping[str, Any]
"""The body of a message of type 8."""
_CHECKSUM = ("size", "perm", "attributes", "uid", "gid", "user_name", "group_name", "mtime", "inode", "hash_md5",
             "hash_sha1", "hash_sha256")  # fmt: skip
_REMEMBERED = 1000
_REGISTRY_KEY = "HKEY_LOCAL_MACHINE\\SOFTWARE\\Example"
_FOLDERS = {"windows": "c:\\programdata\\example\\", "linux": "/etc/example/", "macos": "/etc/example/"}


class WatchedFiles:
    """The files of one host; on Windows also a key of the registry and its values."""

    def __init__(self, profile: Profile, random: Random, now: Callable[[], datetime], count: int) -> None:
        """``count``: how many files there are at first."""
        self._random, self._now = random, now
        self._folder = _FOLDERS[profile.family]
        self._created = 0
        self.changes: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)
        """Paths and kinds of the last events."""
        self.files = SynchronizedTable("fim_file")
        self.tables = [self.files]
        for _ in range(count):
            self._write(self._new_path())
        if profile.family == "windows":
            self.tables += self._registry()

    def change(self) -> Event:
        """Create, change or remove a file."""
        paths = list(self.files.rows)
        choice = self._random.random()
        if choice < 0.2 or not paths:
            path = self._new_path()
            return self._event(path, "added", self._write(path))
        path = self._random.choice(paths)
        old = self.files.rows[path].state["attributes"]
        if choice < 0.4:
            self.files.remove(path)
            return self._event(path, "deleted", old)
        new = self._write(path)
        changed = [name.removeprefix("hash_") for name in _CHECKSUM if old.get(name) != new.get(name)]
        return self._event(path, "modified", new, old_attributes=old, changed_attributes=changed)

    def scan(self, *, begins: bool) -> Event:
        """The marker of a scan's beginning or end."""
        return {"type": "scan_start" if begins else "scan_end", "data": {"timestamp": self._seconds()}}

    def _seconds(self) -> int:
        return int(self._now().timestamp())

    def _new_path(self) -> str:
        self._created += 1
        return f"{self._folder}setting{self._created:04}.conf"

    def _event(self, path: str, kind: str, attributes: Mapping[str, Any], **more: object) -> Event:
        self.changes.append((path, kind))
        data = {"path": path, "version": 2, "mode": "realtime", "timestamp": self._seconds(), "type": kind}
        return {"type": "event", "data": {**data, "attributes": attributes, **more}}

    def _write(self, path: str) -> Mapping[str, Any]:
        """Give the file a new content."""
        seconds, content = self._seconds(), self._random.randbytes(self._random.randrange(1, 64))
        attributes: dict[str, Any] = {
            "type": "file", "size": len(content), "perm": "rw-r--r--", "uid": "0", "gid": "0",
            "user_name": "root", "group_name": "root", "inode": 1000 + len(path) * 1000 + int(path[-9:-5]),
            "mtime": seconds, **_hashes(content),
        }  # fmt: skip
        attributes["checksum"] = digest(":".join(str(attributes.get(name, "")) for name in _CHECKSUM))
        self.files.put(path, Row(attributes["checksum"], {"attributes": attributes, "timestamp": seconds}))
        return attributes

    def _registry(self) -> list[SynchronizedTable]:
        seconds = self._seconds()
        keys, values = SynchronizedTable("fim_registry_key"), SynchronizedTable("fim_registry_value")
        place = {"arch": "[x64]", "path": _REGISTRY_KEY, "timestamp": seconds, "version": 3}
        key = {"type": "registry_key", "uid": "S-1-5-18", "user_name": "SYSTEM", "mtime": seconds}
        key["checksum"] = digest(f"{key['uid']}:{seconds}")
        keys.put(digest(f"key[x64]{_REGISTRY_KEY}"), Row(str(key["checksum"]), {**place, "attributes": key}))
        for name in ("Path", "Version", ""):
            content = self._random.randbytes(8)
            value = {"type": "registry_value", "value_type": "REG_SZ", "size": 8, **_hashes(content)}
            value["checksum"] = digest(f"1:8:{value['hash_md5']}:{value['hash_sha1']}:{value['hash_sha256']}")
            state = {**place, "value_name": name, "attributes": value}
            values.put(digest(f"value[x64]{_REGISTRY_KEY}{name}"), Row(str(value["checksum"]), state))
        return [keys, values]


def _hashes(content: bytes) -> dict[str, str]:
    return {
        "hash_md5": md5(content, usedforsecurity=False).hexdigest(),
        "hash_sha1": sha1(content, usedforsecurity=False).hexdigest(),
        "hash_sha256": sha256(content).hexdigest(),
    }
