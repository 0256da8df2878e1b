"""Message counters on disk (agent-link.md 5.6)."""

import logging
from collections.abc import Iterable
from pathlib import Path

from secmon.agents.wire.counters import Counter, parse
from secmon.common.file_io import write_file

log = logging.getLogger("secmon.agentlink")

AHEAD = 64
"""Global counts that one write reserves: 640 000 messages."""
_SENDER = "sender_counter"


class SenderCounter:
    """The server's own counter. It never goes back, at whatever moment the process ends.

    The file holds a counter that no message has used yet; a start goes on from there.
    """

    def __init__(self, folder: Path) -> None:
        """Reads and writes the file at once. Raises OSError."""
        self._path = folder / _SENDER
        folder.mkdir(parents=True, exist_ok=True)
        stored = read_counter(self._path)
        self._last = Counter(stored.major + 1, 0) if stored else Counter()
        self._reserved = self._last.major
        self._reserve()

    def take(self) -> Counter:
        """The counter of the next message."""
        self._last = self._last.next()
        if self._last.major >= self._reserved - 1:
            try:
                self._reserve()
            except OSError as error:  # few agents verify counters: a reused counter costs less than silence
                log.error("The counter of messages cannot be written: %s", error)
                self._reserved += 1
        return self._last

    def _reserve(self) -> None:
        reserved = self._last.major + AHEAD
        write_file(self._path, Counter(reserved, 0).text.encode())
        self._reserved = reserved


class ReceiverCounters:
    """Counters of agents; only with ``remoted.verify_msg_id=1``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, agent: str) -> Counter:
        """The last counter of the agent with this id; zero without one. Raises OSError."""
        return read_counter(self._folder / agent) or Counter()

    def save(self, counters: Iterable[tuple[str, Counter]]) -> None:
        """Write without syncing: an older counter refuses no message of the agent."""
        for agent, counter in counters:
            (self._folder / agent).write_text(counter.text)

    def forget(self, agent: str) -> None:
        """Delete the counter of an agent that is removed or has another key."""
        (self._folder / agent).unlink(missing_ok=True)


def read_counter(path: Path) -> Counter | None:
    """The counter in a file; None when there is none. Raises OSError."""
    try:
        return parse(path.read_text("ascii", errors="replace"))
    except FileNotFoundError:
        return None
