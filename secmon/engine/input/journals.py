"""Events to analyse: the journals that hold them, and how far they are done with."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from secmon.journal.journal import Block, JournalReader

CONSUMER = "analysisd"
"""Name of the engine among the readers of a journal."""
BATCH_BYTES = 256 << 10
"""Of each journal, read at once."""
_RECORD = 4096


class Batch(NamedTuple):
    """Blocks of one of the journals."""

    journal: int
    blocks: list[Block]


class Feed:
    """Reads all journals in turn. What is done is committed when its outputs are written, not before."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Registers as a consumer, or goes on where the last one committed. Raises OSError."""
        self._readers: list[JournalReader] = []
        try:
            for folder in folders:
                self._readers.append(JournalReader(folder, CONSUMER))
        except BaseException:
            self.close()
            raise
        self._done = [reader.next for reader in self._readers]

    @property
    def lost(self) -> int:
        """Events that were gone, or damaged, before they were read."""
        return sum(reader.lost for reader in self._readers)

    def unread(self) -> list[int]:
        """About how many bytes of each journal were not read yet. Raises OSError."""
        return [reader.unread() for reader in self._readers]

    @property
    def positions(self) -> list[int]:
        """Number of the next event of each journal, as of the last :meth:`done`."""
        return list(self._done)

    def read(self) -> list[Batch]:
        """What has come; empty when nothing has. Raises OSError."""
        batches = [Batch(index, reader.read(limit=BATCH_BYTES)) for index, reader in enumerate(self._readers)]
        return [batch for batch in batches if batch.blocks]

    def done(self, journal: int, number: int) -> None:
        """Everything before event ``number`` is analysed; that counts from the next :meth:`commit` on."""
        self._done[journal] = number

    def commit(self) -> None:
        """Raises OSError."""
        for reader, number in zip(self._readers, self._done, strict=True):
            reader.commit(number)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


class Ledger:
    """Sizes of the outputs at the last commit: tells after a death how much of them may be written again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def repeated(self, ends: Mapping[str, int]) -> int:
        """Records that were written after the last commit. ``ends``: the sizes now, by path. Raises OSError."""
        try:
            known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except (FileNotFoundError, msgspec.MsgspecError):
            return 0  # the first start, or a note that was cut: nothing is known
        return max((_records(Path(path), known.get(path, 0)) for path in {*known, *ends}), default=0)

    def note(self, ends: Mapping[str, int]) -> None:
        """Raises OSError."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        os.pwrite(self._file, msgspec.json.encode(ends).ljust(_RECORD), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _records(path: Path, start: int) -> int:
    """Records behind ``start``: lines, or alerts as text."""
    separator = b"** Alert " if path.name.startswith("ossec-alerts") and path.suffix == ".log" else b"\n"
    try:
        with path.open("rb") as file:
            file.seek(start)
            return sum(chunk.count(separator) for chunk in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0
