"""The packages of a node: downloaded once, compared with the digest of the repository, cached (agent-link.md 10.4)."""

import asyncio
import hashlib
import logging
import os
from pathlib import Path

from secmon.agentlink.upgrade.failures import UpgradeFailure
from secmon.agentlink.upgrade.repository import PackageLocation, Repository, package_location, repository
from secmon.agentlink.upgrade.transfer import Package
from secmon.agents.tasks.lifecycle import Work
from secmon.agents.upgrade_targets import Candidate
from secmon.agents.wire.version import MANAGER_VERSION
from secmon.common.clock import Clock
from secmon.common.download import DownloadError, download
from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.common.paths import Paths

log = logging.getLogger("secmon.modulesd.upgrades")

ATTEMPTS = 5
PACKAGE_BYTES = 512 << 20
PACKAGE_SECONDS = 600.0
"""For all attempts together: other packages wait meanwhile, also those of other repositories."""
REMEMBERED_SECONDS = 60.0
"""Time for which a digest of a repository is cached: thousands of agents need the same one."""


class Packages:
    """Finds packages for agents; one download at a time."""

    def __init__(self, paths: Paths, clock: Clock, *, configured: str, pause: float = 1.0) -> None:
        """``configured``: the repository of the configuration; ``pause`` in seconds, longer after each failure."""
        self._paths, self._clock = paths, clock
        self._configured = configured
        self._pause = pause
        self._turn = asyncio.Lock()
        self._promised: dict[str, tuple[float, str]] = {}
        self._checked: dict[Path, tuple[tuple[int, int, int], str]] = {}

    async def find(self, agent: Candidate, work: Work) -> Package:
        """The package of ``work`` for ``agent``. Raises UpgradeFailure 14 to 17, OSError."""
        if work.file is not None:
            return await self._own(work.file)
        version = work.version or MANAGER_VERSION
        text = self._configured if work.repository is None else work.repository
        source = repository(text, self._paths.root, self._paths.packages, http=work.http)
        place = package_location(agent, version)
        sha1 = await self._promise(source, place, version)
        path = source.local(place.folder + place.file)
        if path is None:
            path = self._paths.upgrades / place.file
            async with self._turn:
                if await self._digest(path) != sha1:
                    await self._fetch(source.name(place.folder + place.file), path)
        found = await self._digest(path)
        if found is None:
            raise UpgradeFailure(16, str(path))
        if found != sha1:
            raise UpgradeFailure(17, str(path))
        return Package(path, sha1)

    async def _own(self, file: str) -> Package:
        """A package that an operator has put on this node; links must stay below the installation folder."""
        root, path = self._paths.root, self._paths.root / file
        below = await asyncio.to_thread(lambda: path.resolve().is_relative_to(root.resolve()))
        sha1 = await self._digest(path) if below else None
        if sha1 is None:
            raise UpgradeFailure(16, str(path))
        return Package(path, sha1)

    async def _promise(self, source: Repository, place: PackageLocation, version: str) -> str:
        name, now = source.name(place.folder + place.file), self._clock.monotonic()
        known = self._promised.get(name)
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1]
        sha1 = await source.sha1(place, version)
        self._promised[name] = now, sha1
        return sha1

    async def _fetch(self, url: str, path: Path) -> None:
        ends = self._clock.monotonic() + PACKAGE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                data = await download(url, limit=PACKAGE_BYTES, seconds=ends - self._clock.monotonic())
                break
            except DownloadError as error:
                log.warning("Package %s, attempt %d: %s", url, attempt, error)
                if attempt == ATTEMPTS or self._clock.monotonic() + self._pause * attempt >= ends:
                    raise UpgradeFailure(16, f"{url}: {error}") from None
                await asyncio.sleep(self._pause * attempt)
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(write_file, path, data)
        log.info("Package %s was fetched: %d bytes", url, len(data))

    async def _digest(self, path: Path) -> str | None:
        """SHA-1 of a file; None without the file. An unchanged file is not read again."""

        def read() -> tuple[tuple[int, int, int], str] | None:
            try:
                with path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    identity = (status.st_ino, status.st_mtime_ns, status.st_size)
                    known = self._checked.get(path)
                    if known is not None and known[0] == identity:
                        return known
                    return identity, hashlib.file_digest(file, _sha1).hexdigest()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None
            except PermissionError as error:
                raise UpgradeFailure(16, os_text(error)) from None

        found = await asyncio.to_thread(read)
        if found is None:
            return None
        self._checked[path] = found
        return found[1]


def _sha1() -> "hashlib._Hash":
    return hashlib.sha1(usedforsecurity=False)
