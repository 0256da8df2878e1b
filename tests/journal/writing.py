"""A running batch writer, and the events that it has written."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from secmon.common.clock import SystemClock
from secmon.journal.batch_writer import BatchWriter
from secmon.journal.journal import JournalReader, JournalWriter


def writer(folder: Path, *, size: int = 1000, limit: int = 1 << 20) -> BatchWriter:
    journal = JournalWriter(folder, SystemClock(), limit=limit, segment=limit // 8)
    return BatchWriter(journal, size=size, max_bytes=1 << 24, log=logging.getLogger("test"), what="Events")


@asynccontextmanager
async def writing(folder: Path, *, size: int = 1000, limit: int = 1 << 20) -> AsyncIterator[BatchWriter]:
    made = writer(folder, size=size, limit=limit)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await task
        made.close()


def stored(reader: JournalReader) -> list[bytes]:
    """The events that were not read yet."""
    found = [event for block in reader.read() for event in block.events]
    reader.commit(reader.next)
    return found
