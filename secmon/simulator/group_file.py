"""The agent's handling of group files: reception, verification, unpacking (agent-link.md 7.2, 7.5)."""

import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import md5
from pathlib import Path, PurePosixPath
from weakref import WeakValueDictionary

from secmon.common.file_io import write_file
from secmon.config.xml import XmlError, parse_xml

AGENT_CONF = "agent.conf"
MAX_BYTES = 64 << 20
_ENTRY = re.compile(rb"!(\d{1,10}) ([^\n]{1,255})\n")


class MalformedFile(ValueError):
    """A merged file that cannot be unpacked."""


@dataclass(frozen=True, eq=False)
class GroupFile:
    """A merged file with the sum that was announced; shared by all agents that hold it."""

    sum: str
    files: dict[str, bytes]

    @cached_property
    def config_sum(self) -> str:
        """md5 of ``agent.conf``; empty when there is none."""
        text = self.files.get(AGENT_CONF)
        return "" if text is None else md5(text, usedforsecurity=False).hexdigest()

    @cached_property
    def config_problem(self) -> str:
        """Why ``agent.conf`` cannot be used; empty when it can (agent-link.md 7.9)."""
        text = self.files.get(AGENT_CONF)
        if text is None:
            return ""
        try:
            root = parse_xml(text, AGENT_CONF)
        except XmlError as error:
            return str(error)
        return next((f"element {each.tag}" for each in root.children if each.name != "agent_config"), "")

    def write(self, folder: Path) -> None:
        """Write the files into ``folder`` and delete all others there."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, data)
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_file() and str(path.relative_to(folder)) not in self.files:
                path.unlink()


KnownFiles = WeakValueDictionary[str, GroupFile]
"""Unpacked files by md5, for all agents of a fleet that have them."""


class GroupFileReceiver:
    """One push in progress."""

    def __init__(self, announced: str, name: str, known: KnownFiles) -> None:
        self.announced, self.name = announced, name
        self._known = known
        self._found = known.get(announced)  # this reference keeps it alive until the end
        self._digest = md5(usedforsecurity=False)
        self._data = bytearray()
        self._length = 0

    def piece(self, data: bytes) -> None:
        """Take the next piece of content."""
        self._digest.update(data)
        self._length += len(data)
        if self._found is None and self._length <= MAX_BYTES:
            self._data += data

    def close(self) -> GroupFile | None:
        """The file, or None when its sum is not the announced one. Raises MalformedFile."""
        if self._digest.hexdigest() != self.announced or self._length > MAX_BYTES:
            return None
        found = self._found or self._known.get(self.announced)
        if found is None:
            found = self._known[self.announced] = GroupFile(self.announced, unpack(bytes(self._data)))
        return found


def unpack(merged: bytes) -> dict[str, bytes]:
    """Contents by name; the later of two entries with one name counts. Raises MalformedFile."""
    if not merged.startswith(b"#") or (at := merged.find(b"\n") + 1) == 0:
        raise MalformedFile("the first line is no tag")
    files: dict[str, bytes] = {}
    while at < len(merged):
        entry = _ENTRY.match(merged, at)
        if entry is None:
            raise MalformedFile(f"no entry at byte {at}")
        size, name = int(entry[1]), entry[2].decode("utf-8", "replace")
        at = entry.end() + size
        if at > len(merged):
            raise MalformedFile(f"{name} is cut off")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise MalformedFile(f"{name} leads out of the folder")
        files[name] = merged[entry.end() : at]
    return files
