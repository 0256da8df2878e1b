"""Pushes the shared files of groups to agents (agent-link.md 7.5)."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Iterator

from secmon.agentlink.agent_table import Agent, LastPush
from secmon.agentlink.outgoing import Outgoing
from secmon.agents.groups.folders import MERGED, merged_path
from secmon.common.clock import Clock
from secmon.common.paths import Paths

log = logging.getLogger("secmon.agentlink")

PIECE = 900
"""Bytes of the file in one message."""
DATAGRAMS = 31
"""Pieces over UDP before a pause."""
PAUSE_SECONDS = 1.0
_TURN = 8
"""Pieces over TCP before other tasks run."""
FIRST_REPEAT_SECONDS = 15.0
LAST_REPEAT_SECONDS = 300.0
_REMEMBERED = 8
"""Files whose pieces are cached, for the many agents of a group."""


class FilePusher:
    """Pushes files to a bounded number of agents at a time. An agent is in the queue at most once."""

    def __init__(self, paths: Paths, clock: Clock, outgoing: Outgoing) -> None:
        self._paths = paths
        self._clock = clock
        self._outgoing = outgoing
        self._waiting: deque[tuple[Agent, str, str]] = deque()
        self._wake = asyncio.Semaphore(0)
        self._pieces: dict[str, list[bytes]] = {}

    @property
    def waiting(self) -> int:
        """Agents in the queue."""
        return len(self._waiting)

    def want(self, agent: Agent, group: str, merged_sum: str) -> None:
        """Queue ``agent`` for the merged file of ``group``, which has the md5 ``merged_sum``.

        An agent that was sent the same files and still lacks them gets them again after growing pauses: it is
        restarting, or it cannot use them.
        """
        done = agent.delivery.last_push
        if done is not None and done.merged_sum == merged_sum:
            pause = min(FIRST_REPEAT_SECONDS * 2.0 ** min(done.times - 1, 10), LAST_REPEAT_SECONDS)
            if self._clock.monotonic() < done.at + pause:
                return
        if not agent.delivery.pushing and self._outgoing.path_to(agent) is not None:
            agent.delivery.pushing = True
            self._waiting.append((agent, group, merged_sum))
            self._wake.release()

    async def run(self) -> None:
        """Push files to one agent after the other; does not return."""
        while True:
            await self._wake.acquire()
            agent, group, merged_sum = self._waiting.popleft()
            try:
                if await self._push(agent, group, merged_sum):
                    done = agent.delivery.last_push
                    times = done.times + 1 if done is not None and done.merged_sum == merged_sum else 1
                    agent.delivery.last_push = LastPush(merged_sum, self._clock.monotonic(), times)
            finally:
                agent.delivery.pushing = False

    async def _push(self, agent: Agent, group: str, merged_sum: str) -> bool:
        pieces = self._pieces.get(merged_sum) or await asyncio.to_thread(self._load, group, merged_sum)
        if pieces is None:
            return False
        log.debug("Agent %s is sent the shared files of %s", agent.id, group)
        for number, text in enumerate(messages(pieces, merged_sum)):
            if not await self._outgoing.deliver(agent, text, "shared"):
                return False
            route = agent.session.reply_path
            if route is not None and not route.stream:
                if number and number % DATAGRAMS == 0:
                    await asyncio.sleep(PAUSE_SECONDS)
            elif number % _TURN == 0:
                await asyncio.sleep(0)
        return True

    def _load(self, group: str, merged_sum: str) -> list[bytes] | None:
        """The file in pieces; None when its md5 is no longer ``merged_sum``."""
        try:
            data = merged_path(self._paths, group).read_bytes()
        except OSError as error:
            log.warning("The shared files of %s cannot be sent: %s", group, error)
            return None
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != merged_sum:
            return None
        pieces = list(cut(data))
        while len(self._pieces) >= _REMEMBERED:
            del self._pieces[next(iter(self._pieces))]
        self._pieces[merged_sum] = pieces
        return pieces


def messages(pieces: list[bytes], merged_sum: str) -> Iterator[bytes]:
    """The texts of a push in their order."""
    yield f"#!-up file {merged_sum} {MERGED}\n".encode()
    yield from pieces
    yield b"#!-close file "


def cut(data: bytes) -> Iterator[bytes]:
    """Pieces of at most ``PIECE`` bytes. No piece begins like a control message."""
    start = 0
    while start < len(data):
        end = start + PIECE
        if data.startswith(b"#!-", end):
            end -= 1
        yield data[start:end]
        start = end
