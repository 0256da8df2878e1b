"""Events to analyse: the journals that hold them, and the position in each."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from secmon.journal.journal import Block, JournalReader

CONSUMER = "analysisd"
"""Name of the engine among the readers of a journal."""
BATCH_BYTES = 256 << 10
"""Bytes of each journal that are read at once."""


class Batch(NamedTuple):
    """Blocks of one journal; ``journal`` is its index."""

    journal: int
    blocks: list[Block]


class EventFeed:
    """Reads all journals in turn. A position is committed when the outputs of all events before it are written."""

    def __init__(self, messages: Sequence[Path], decoded_events: Path) -> None:
        """Registers as a consumer, or continues at the committed position. Raises OSError.

        ``messages``: the journals of agents' and local messages; ``decoded_events``: that of the inventory. Only the
        journal says which of them an event is, so that no message can be taken for a decoded event.
        """
        folders = [*messages, decoded_events]
        self.of_agents = 0
        """Index of the journal of agents' messages, the first one."""
        self.of_decoded_events = len(messages)
        """Index of the journal of decoded events."""
        self._readers: list[JournalReader] = []
        try:
            for folder in folders:
                self._readers.append(JournalReader(folder, CONSUMER))
        except BaseException:
            self.close()
            raise
        self._positions = [reader.next for reader in self._readers]

    @property
    def lost(self) -> int:
        """Events that were removed, or damaged, before they were read."""
        return sum(reader.lost for reader in self._readers)

    def unread(self) -> list[int]:
        """About how many bytes of each journal were not read yet. Raises OSError."""
        return [reader.unread() for reader in self._readers]

    @property
    def positions(self) -> list[int]:
        """Number of the next event of each journal, as of the last :meth:`advance`."""
        return list(self._positions)

    def read(self) -> list[Batch]:
        """New blocks; empty when there are none. Raises OSError."""
        batches = [Batch(index, reader.read(limit=BATCH_BYTES)) for index, reader in enumerate(self._readers)]
        return [batch for batch in batches if batch.blocks]

    def advance(self, journal: int, number: int) -> None:
        """Everything before event ``number`` is analysed; the next :meth:`commit` stores that."""
        self._positions[journal] = number

    def commit(self) -> None:
        """Store the positions. Raises OSError."""
        for reader, number in zip(self._readers, self._positions, strict=True):
            reader.commit(number)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
