"""The transfer of a package to an agent: open, write, close, compare, install (agent-link.md 10.5)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from secmon.agentlink.upgrade.dialects import LOCK, AgentRefused, Dialect, text_data
from secmon.agentlink.upgrade.failures import UpgradeFailure
from secmon.cluster.node import AgentLink

OPEN_ATTEMPTS = 10
"""An agent that has just started is not ready yet."""
OPEN_PAUSE = 1.0
_BLOCK = 1 << 20


class Package(NamedTuple):
    """A file, and its SHA-1 in hexadecimal."""

    path: Path
    sha1: str


class Transfer:
    """One package to one agent."""

    def __init__(
        self,
        link: AgentLink,
        agent: int,
        dialect: Dialect,
        package: Package,
        *,
        chunk_size: int,
        open_pause: float = OPEN_PAUSE,
    ) -> None:
        """``chunk_size`` in bytes, ``open_pause`` in seconds between attempts to begin."""
        self._link, self._agent, self._dialect = link, agent, dialect
        self._package, self._file = package, package.path.name
        self._chunk_size, self._open_pause = chunk_size, open_pause

    async def run(self, installer: str) -> None:
        """Send the package and have it installed. Raises UpgradeFailure, OSError, SecmonError 1014."""
        dialect, file = self._dialect, self._file
        await self._lock()
        await self._open()
        async for chunk in _chunks(self._package.path, self._chunk_size):
            await self._request(20, dialect.write(file, chunk))
        await self._request(21, dialect.close(file))
        digest = await self._request(22, dialect.sha1(file))
        if digest.lower() != self._package.sha1.lower():
            raise UpgradeFailure(22, "the agent received other bytes than were sent")
        result = await self._request(23, dialect.upgrade(file, installer))
        if not result.startswith("0"):
            raise UpgradeFailure(23, result)

    async def _lock(self) -> None:
        """Keep the agent from restarting by itself meanwhile."""
        try:
            text_data(await self._link.request(self._agent, *LOCK))
        except AgentRefused as error:
            raise UpgradeFailure(18, str(error)) from None

    async def _open(self) -> None:
        for _ in range(OPEN_ATTEMPTS - 1):
            try:
                await self._request(19, self._dialect.open(self._file))
                return
            except UpgradeFailure:
                await asyncio.sleep(self._open_pause)
        await self._request(19, self._dialect.open(self._file))

    async def _request(self, code: int, request: bytes) -> str:
        try:
            return self._dialect.data(await self._link.request(self._agent, self._dialect.target, request))
        except AgentRefused as error:
            raise UpgradeFailure(code, str(error)) from None


async def _chunks(path: Path, size: int) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while block := await asyncio.to_thread(file.read, max(size, _BLOCK // size * size)):
            for start in range(0, len(block), size):
                yield block[start : start + size]
