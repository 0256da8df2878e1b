"""The store built again from the files of alerts, beside the one in use, which it replaces at the end."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from secmon.alerts import generations
from secmon.alerts.indexer import COMMIT_ALERTS, index_some, open_generation, store_lock
from secmon.alerts.writer import StoreLimits
from secmon.common.clock import Clock
from secmon.common.logfile.log_series import LogSeries

Progress = Callable[[int, int], None]
"""Gets how many bytes are done, of how many."""


class AlreadyReindexing(Exception):
    """Another process builds the store."""


def reindex(folder: Path, series: LogSeries, limits: StoreLimits, clock: Clock, progress: Progress) -> tuple[int, int]:
    """Index all files that are to be kept; how many alerts, and how many lines were none.

    The daemon may go on indexing into the store in use, until the new one has caught up. An interruption leaves that
    one in use. Raises AlreadyReindexing, OSError, StoreFault.
    """
    folder.mkdir(0o750, exist_ok=True)
    with _alone(folder):
        generation = generations.following(folder)
        writer, reader = open_generation(generation, series, limits, clock)
        try:
            total = reader.unread()
            while index_some(writer, reader):
                if writer.waiting >= COMMIT_ALERTS:
                    writer.commit(reader.position)
                    progress(max(0, total - reader.unread()), total)
            writer.commit(reader.position)
            with store_lock(folder):
                while index_some(writer, reader):
                    pass
                writer.commit(reader.position)
                writer.close()  # only then another process can open what it has written
                generations.use(generation)
            progress(total, total)
            return writer.added, writer.malformed
        finally:
            writer.close()
            reader.close()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "reindex.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyReindexing("another command builds the store") from None
        yield
    finally:
        os.close(descriptor)
