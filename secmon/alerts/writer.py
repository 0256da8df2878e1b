"""The writer of the store: alerts and the position that they were read up to, in one commit."""

import logging
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import tantivy
from msgspec import msgpack

from secmon.alerts import document, generations
from secmon.alerts.alert_reader import Line, Position
from secmon.alerts.generations import PartitionName
from secmon.alerts.partition import Partition
from secmon.common.file_io import sync_folder

log = logging.getLogger("secmon.alerts")

HEAP_BYTES = 32_000_000
"""Memory of the alerts that are not committed; more are written to the disk before."""
FOLDER_MODE = 0o750
_SYSTEM_ERROR = re.compile(r'message: "([^"]+)"')


class StoreFault(Exception):
    """The store cannot be written: what was not committed is gone, and comes again from the files of alerts."""


@dataclass(frozen=True, kw_only=True)
class StoreLimits:
    """What is kept. ``keep_days`` and ``max_bytes``: 0 is without limit. ``partition_alerts`` go into one partition."""

    keep_days: int = 30
    max_bytes: int = 20 << 30
    partition_alerts: int = 1_000_000


class AlertWriter:
    """Appends to one generation. For one thread of one process; everything blocks."""

    def __init__(self, generation: Path, limits: StoreLimits) -> None:
        """Raises OSError, StoreFault."""
        self.generation, self._limits = generation, limits
        self.malformed = 0
        """Lines that were no alerts."""
        self.damaged = 0
        """Partitions that could not be read, and were put aside."""
        self.waiting = 0
        """Alerts that are not committed."""
        self.added = 0
        """Alerts that were committed."""
        generation.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self.sequence, self.position = self._last()
        """Number of the last alert, and the position after it; None: nothing was ever committed."""
        self._name: PartitionName | None = None
        self._stored = 0
        """Alerts of the partition that are committed."""
        self._writer: tantivy.IndexWriter | None = None
        self._pending: tantivy.Document | None = None
        self._sealing: threading.Thread | None = None

    def add(self, lines: Sequence[Line], day: date) -> None:
        """Alerts of a file of ``day``. Raises OSError, StoreFault."""
        for line in lines:
            try:
                alert = document.read_alert(line.data)
            except document.MalformedAlert as error:
                self.malformed += 1
                log.debug("A line of the alerts is none: %s: %r", error, line.data[:200])
                continue
            self._add_pending()
            self.sequence = document.number_after(self.sequence, alert.time)
            if self._writer is None:
                self._guarded(partial(self._open, day))
            self._pending = document.document(alert, line.data, line.offset, self.sequence)
            self.waiting += 1

    def commit(self, position: Position) -> int:
        """Make what was added durable, together with the position after it; how many alerts. Raises StoreFault."""
        if self._pending is None or self._writer is None:
            return 0  # lines that are no alerts are read again after a restart
        self._pending.add_bytes(document.POSITION, msgpack.encode(position))
        self._add_pending()
        self._guarded(self._writer.commit)
        committed, self.waiting, self.position = self.waiting, 0, position
        self._stored += committed
        self.added += committed
        return committed

    def turn_over(self, day: date) -> None:
        """Begin another partition if the present one is full, or of an earlier day. Everything is committed."""
        if self._name is None or self._writer is None:
            return
        if day > self._name.day or self._stored >= self._limits.partition_alerts:
            self._seal()

    def drop(self, today: date) -> int:
        """Delete the partitions that are too old, and the oldest of those that are too much; how many.

        The newest is always kept: it has the position. Raises OSError.
        """
        names = generations.partitions(self.generation)
        sizes = {name: generations.size(self.generation / str(name)) for name in names}
        limits, total, dropped = self._limits, sum(sizes.values()), 0
        oldest = today - timedelta(days=limits.keep_days)
        for name in names[:-1]:
            if (limits.keep_days and name.day < oldest) or (limits.max_bytes and total > limits.max_bytes):
                generations.remove(self.generation / str(name))
                total -= sizes[name]
                dropped += 1
        return dropped

    def close(self) -> None:
        """What is not committed is gone; full partitions are finished."""
        self.abandon()
        if self._sealing is not None:
            self._sealing.join()

    def abandon(self) -> None:
        """Give up a generation that is not used any longer: nothing is waited for."""
        self._writer = self._pending = None

    def _last(self) -> tuple[int, Position | None]:
        """From the newest partition that has a commit. A damaged one is put aside: its alerts are read again."""
        for name in reversed(generations.partitions(self.generation)):
            path = self.generation / str(name)
            try:
                found = Partition(path).last() if tantivy.Index.exists(str(path)) else None
                if found is not None:
                    return found[0], msgpack.decode(found[1], type=Position)
            except (OSError, ValueError) as error:
                self.damaged += 1
                log.error("%s is damaged and put aside; its alerts are read again: %s", path, error)
                path.rename(path.with_name(f".{path.name}.damaged"))
        return 0, None

    def _open(self, day: date) -> None:
        """The newest partition, unless it is full or of an earlier day: then a new one."""
        names = generations.partitions(self.generation)
        name = names[-1] if names else None
        if name is None or day > name.day or self._count(name) >= self._limits.partition_alerts:
            name = PartitionName(day, self.sequence)
        path = self.generation / str(name)
        path.mkdir(FOLDER_MODE, exist_ok=True)
        sync_folder(self.generation)
        index = tantivy.Index(document.schema(), str(path))
        index.register_tokenizer(document.WORDS, document.analyzer())
        self._writer = index.writer(HEAP_BYTES, 1)
        self._name, self._stored = name, self._count(name)

    def _count(self, name: PartitionName) -> int:
        """Alerts of a partition that are committed."""
        path = self.generation / str(name)
        return Partition(path).searcher.num_docs if tantivy.Index.exists(str(path)) else 0

    def _seal(self) -> None:
        """Finish the merges of a partition beside the next one."""
        writer, self._writer, self._name = self._writer, None, None
        if self._sealing is not None:
            self._sealing.join()
        if writer is not None:
            self._sealing = threading.Thread(target=_finish, args=(writer,), name="alerts-sealing", daemon=True)
            self._sealing.start()

    def _add_pending(self) -> None:
        made, self._pending = self._pending, None
        if made is not None and self._writer is not None:
            self._guarded(partial(self._writer.add_document, made))

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (OSError, ValueError) as error:
            writer, self._writer = self._writer, None
            if writer is not None:
                _finish(writer)  # frees the lock of the index, although the traceback still holds the writer
            raise StoreFault(f"{self.generation}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What the system said, if it did: the rest has names of temporary files, which differ each time."""
    said = _SYSTEM_ERROR.search(str(error))
    return said[1] if said else str(error)


def _finish(writer: tantivy.IndexWriter) -> None:
    with suppress(OSError, ValueError):  # the partition is whole without these merges
        writer.wait_merging_threads()
