"""``etc/client.keys`` beside the registry: written for existing tools, and read when one of them has changed it.

Agents are served from the registry; the file is an export of it that can also be edited. On the master
:class:`MasterKeyFile` compares an edited file with a copy of the text written last and applies the difference: lines
added, changed, marked as removed, or missing. A file that was emptied or cut short must not remove agents or change
their keys. A last line without its line feed is ignored, and missing lines remove agents only

- when all other lines are valid, and at least one agent is left, and
- up to a tenth of the agents, or three if that is more.

Otherwise the lines are written back, and the log says how to remove many agents: mark the lines with ``!`` in front of
the name, or use the API. A file that was ignored or written over is kept under ``backup/agents``. Workers only write
the file (:func:`write_key_files`).
"""

import hashlib
import logging
from pathlib import Path

from msgspec import Struct
from sqlalchemy import Connection

from secmon.agents.names import padded
from secmon.agents.registry import registry
from secmon.agents.registry.entries import Entry, entries, tombstones
from secmon.agents.registry.key_lines import KeyLine, KeyLines, parse_keys, render_keys, render_times
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore, get, number
from secmon.common.clock import Clock
from secmon.common.file_io import write_file
from secmon.common.paths import Paths

log = logging.getLogger("secmon.agents")

_MAX_MISSING, _MAX_MISSING_SHARE = 3, 10
_WRITE_SHARE = 20
"""A write that takes long is followed by a pause this many times as long."""

Signature = tuple[int, int, int] | None
"""Modification time, size and inode of a file; ``None``: there is none."""


class _Copy(Struct, frozen=True):
    """The text written last, with its store and revision."""

    store: str
    revision: int
    text: str


class KeyFileChanges(Struct):
    """Changes of the registry from the file, by id."""

    added: list[int] = []
    changed: list[int] = []
    removed: list[int] = []
    purged: list[int] = []
    buried: list[int] = []
    put_back: list[int] = []

    def __str__(self) -> str:
        return ", ".join(f"{name} {_ids(ids)}" for name in self.__struct_fields__ if (ids := getattr(self, name)))


class MasterKeyFile:
    """The file on the master. Call ``poll`` about once a second, always in the same process; it blocks."""

    def __init__(self, store: AgentStore, paths: Paths, clock: Clock) -> None:
        self._store, self._paths, self._clock = store, paths, clock
        self._copy = written_copy(paths)
        self._known: Signature | bool = False  # no file has this signature: the first poll reads it
        self._settling: Signature | bool = False
        self._written: int | None = None
        self._not_before = 0.0

    def poll(self) -> KeyFileChanges | None:
        """Apply changes of the file to the registry, then write changes of the registry to the file.

        Returns the changes of the registry, if any. Raises OSError and SQLAlchemyError; the next call tries again.
        """
        taken = None
        now = _signature(self._paths.client_keys)
        if now != self._known:
            if now != self._settling:  # it may be incomplete: wait until it no longer changes
                self._settling = now
                return None
            taken = self._take()
            self._known, self._written = now, None
        if self._store.revision() != self._written and self._clock.monotonic() >= self._not_before:
            self._write()
        return taken

    def _take(self) -> KeyFileChanges | None:
        found = read_text(self._paths.client_keys)
        with self._store.read() as connection:
            store = get(connection, "store_id") or ""
        before = self._read_copy(store)
        if found == (before.text if before else ""):
            return None
        merge = _Merge(before, found, int(self._clock.now().timestamp()))
        for fault in merge.after.faults[:20]:
            log.error("%s: %s", self._paths.client_keys, fault)
        with self._store.write() as connection:
            taken = merge.apply(connection)
        if str(taken):
            log.warning("%s was changed by another program: %s", self._paths.client_keys, taken)
        if merge.cut:
            self._keep(found, "the last line has no line feed: it is ignored, and missing lines are written back")
        elif taken.put_back:
            self._keep(found, "too many lines are missing: they are written back")
        return taken

    def _keep(self, found: str, why: str) -> None:
        kept = self._paths.root / "backup/agents" / f"client.keys.{self._clock.now():%Y%m%d%H%M%S}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_file(kept, found.encode("utf-8", "surrogateescape"))
        log.error(
            "%s: %s; the file is kept as %s. To remove agents, mark their lines with ! in front of the name, or "
            "use the API",
            self._paths.client_keys,
            why,
            kept,
        )

    def _write(self) -> None:
        begun = self._clock.monotonic()
        with self._store.read() as connection:
            revision, store = number(connection, "revision"), get(connection, "store_id") or ""
            text, times = _render(connection)
        if _signature(self._paths.client_keys) != self._known:
            return  # it has just been changed: read it first
        replaced, first = _replace(self._paths.client_keys, text), self._written is None
        self._known, self._written = self._seen(text), revision
        if replaced or first:
            # After the file: a copy that is older than it only shows differences that the registry has already.
            _replace(self._copy, f"# {store} {revision}\n{text}")
        _replace(times_file(self._paths), times)
        self._not_before = begun + (self._clock.monotonic() - begun) * _WRITE_SHARE

    def _seen(self, text: str) -> Signature | bool:
        """The signature of the file with ``text``; False if it has been changed since."""
        looks = _signature(self._paths.client_keys)
        return looks if read_text(self._paths.client_keys) == text else False

    def _read_copy(self, store: str) -> _Copy | None:
        copy = _parse_copy(read_text(self._copy))
        return copy if copy is not None and copy.store == store else None


class WorkerKeyFile:
    """The file on a worker: an export of the replicated registry; edits are ignored. Called as ``MasterKeyFile``."""

    def __init__(self, store: AgentStore, paths: Paths, clock: Clock) -> None:
        self._store, self._paths, self._clock = store, paths, clock
        self._written: int | None = None
        self._not_before = 0.0

    def poll(self) -> None:
        """Write changes of the registry to the file. Raises as ``MasterKeyFile.poll`` does."""
        begun = self._clock.monotonic()
        if begun >= self._not_before and self._store.revision() != self._written:
            self._written = write_key_files(self._store, self._paths)
            self._not_before = begun + (self._clock.monotonic() - begun) * _WRITE_SHARE


class _Merge:
    """The difference between two texts, applied to the registry, which may have changed meanwhile."""

    def __init__(self, copy: _Copy | None, found: str, now: int) -> None:
        """``copy`` None: the former text is unknown, so that no line counts as changed or missing."""
        self._copy, self._now = copy, now
        self._before = parse_keys(copy.text) if copy else KeyLines()
        whole, end, rest = found.rpartition("\n")
        self.after = parse_keys(whole + end)
        self.cut = bool(rest.strip())

    def apply(self, connection: Connection) -> KeyFileChanges:
        here = {one.id: one for one in entries(connection)}
        marked = [one for one in self.after.removed if one in self._before.active and one in here]
        gone, put_back = self._gone(here)
        stones = [(one, *_texts(line)) for one, line in self.after.removed.items() if one not in here]
        dropped = self._before.removed.keys() - self.after.removed.keys() - self.after.active.keys()
        return KeyFileChanges(
            removed=[one.id for one in registry.remove(connection, [*marked, *gone])],
            changed=self._change(connection, here),
            added=self._add(connection, here),
            buried=registry.add_tombstones(connection, stones),
            purged=[] if put_back or self.cut else registry.purge_tombstones(connection, dropped),
            put_back=put_back,
        )

    def _gone(self, here: dict[int, Entry]) -> tuple[list[int], list[int]]:
        """Agents whose lines are missing: those to remove, and those whose lines are written back."""
        missing = self._before.active.keys() - self.after.active.keys() - self.after.removed.keys()
        gone = sorted(missing & here.keys())
        bound = max(_MAX_MISSING, len(self._before.active) // _MAX_MISSING_SHARE)
        if self.after.active and len(gone) <= bound and not self.after.faults and not self.cut:
            return gone, []
        return [], gone

    def _change(self, connection: Connection, here: dict[int, Entry]) -> list[int]:
        lines = {
            agent: _texts(line)
            for agent, line in self.after.active.items()
            if agent in here and agent in self._before.active and line != self._before.active[agent]
        }
        names = {one.name: one.id for one in here.values() if one.id not in lines}
        for agent, (name, _, _) in list(lines.items()):
            if names.setdefault(name, agent) != agent:
                log.error("agent %s cannot be called %s: another agent is", padded(agent), name)
                del lines[agent]
        return registry.change_keys(connection, lines)

    def _add(self, connection: Connection, here: dict[int, Entry]) -> list[int]:
        news = [
            New(id=agent, name=line.name, address=line.address, key=line.key)
            for agent, line in self.after.active.items()
            if agent not in self._before.active and agent not in here
        ]
        if not news:
            return []
        # The line of an agent that was removed after the copy is old and does not add it again.
        late = {one.id for one in tombstones(connection) if self._copy is None or one.revision > self._copy.revision}
        news = [new for new in news if new.id not in late]
        results = registry.import_agents(connection, news, now=self._now)
        for new, fault in zip(news, results, strict=True):
            if fault is not None:
                log.error("agent %s (%s) could not be added: %s", new.id, new.name, fault.message)
        return [new.id for new, fault in zip(news, results, strict=True) if fault is None and new.id is not None]


def written_copy(paths: Paths) -> Path:
    """The copy of the text that the master wrote last."""
    return paths.agents_db.parent / "client.keys.written"


def store_of_key_file(paths: Paths) -> str | None:
    """Identity of the registry that the master's key file was last written from; None when it was not written here."""
    copy = _parse_copy(read_text(written_copy(paths)))
    return copy.store if copy is not None else None


def _parse_copy(content: str) -> _Copy | None:
    head, _, text = content.partition("\n")
    parts = head.split()
    return _Copy(parts[1], int(parts[2]), text) if len(parts) == 3 and parts[2].isdecimal() else None


def times_file(paths: Paths) -> Path:
    """The file of registration times, for existing tools."""
    return paths.root / "queue/agents-timestamp"


def write_key_files(store: AgentStore, paths: Paths) -> int:
    """Write both files from the registry, on a worker; the revision that they show. Raises OSError."""
    with store.read() as connection:
        revision = number(connection, "revision")
        text, times = _render(connection)
    _replace(paths.client_keys, text)
    _replace(times_file(paths), times)
    return revision


def _render(connection: Connection) -> tuple[str, str]:
    rows = entries(connection)
    return render_keys(rows, tombstones(connection)), render_times(rows)


def _replace(path: Path, text: str) -> bool:
    """Write the text if the file differs; whether it was written."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        if path.stat().st_size == len(data) and _hash(path.read_bytes()) == _hash(data):
            return False
    except FileNotFoundError:
        pass
    write_file(path, data)
    return True


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data).digest()


def read_text(path: Path) -> str:
    """The text of a key file; empty when there is none."""
    try:
        return path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _texts(line: KeyLine) -> tuple[str, str, str]:
    return line.name, line.address, line.key


def _ids(ids: list[int]) -> str:
    shown = ", ".join(map(padded, ids[:20]))
    return f"{shown} and {len(ids) - 20} more" if len(ids) > 20 else shown
