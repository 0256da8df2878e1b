"""Repositories of packages: a folder, or a URL with the same layout (agent-link.md 10.4)."""

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

from secmon.agentlink.upgrade.failures import UpgradeFailure
from secmon.agents.upgrade_targets import Candidate
from secmon.agents.wire.version import compare
from secmon.common.download import DownloadError, download

LIST = "versions"
LIST_SECONDS = 20.0
LIST_BYTES = 1 << 20

ONE_LINUX_SINCE = "v3.4.0"
"""Since this version, one package serves all Linux systems of an architecture."""

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
_LINE = re.compile(r"(?P<version>\S+)\s+(?P<sha1>[0-9A-Fa-f]{40})")


class PackageLocation(NamedTuple):
    """Folder and name of a package within a repository; ``folder`` ends with a slash."""

    folder: str
    file: str


def package_location(agent: Candidate, version: str) -> PackageLocation:
    """The location of the package for ``agent``. Raises UpgradeFailure 15 for a system whose name fits no path.

    ``version`` is written ``vX.Y.Z``.
    """
    platform, arch = agent.os_platform or "", agent.os_arch or ""
    match platform:
        case "windows":
            found = PackageLocation("windows/", f"wazuh_agent_{version}_windows.wpk")
        case "darwin":
            _check(arch)
            found = PackageLocation(f"macos/{arch}/pkg/", f"wazuh_agent_{version}_macos_{arch}.wpk")
        case _ if compare(version, ONE_LINUX_SINCE) >= 0:
            _check(arch)
            found = PackageLocation(f"linux/{arch}/", f"wazuh_agent_{version}_linux_{arch}.wpk")
        case _:
            release = f"{agent.os_major}.{agent.os_minor}" if platform == "ubuntu" else str(agent.os_major)
            _check(platform, release, arch)
            file = f"wazuh_agent_{version}_{platform}_{release}_{arch}.wpk"
            found = PackageLocation(f"{platform}/{release}/{arch}/", file)
    return found


class Repository:
    """A folder or a URL; a URL in ``base`` ends with a slash."""

    def __init__(self, base: str | Path) -> None:
        self._base = base

    def name(self, path: str) -> str:
        """Full name of the file at ``path``."""
        return str(self._base / path) if isinstance(self._base, Path) else f"{self._base}{path}"

    def local(self, path: str) -> Path | None:
        """The file at ``path``, where the repository is a folder."""
        return self._base / path if isinstance(self._base, Path) else None

    async def sha1(self, place: PackageLocation, version: str) -> str:
        """The digest of ``version`` in the list. Raises UpgradeFailure 14, 15."""
        data = await self._list(place.folder + LIST)
        for line in data.decode("utf-8", "replace").splitlines():
            found = _LINE.match(line.strip())
            if found and compare(found["version"], version) == 0:
                return found["sha1"].lower()
        raise UpgradeFailure(15, f"{version} is not in {self.name(place.folder + LIST)}")

    async def _list(self, path: str) -> bytes:
        try:
            file = self.local(path)
            if file is None:
                return await download(self.name(path), limit=LIST_BYTES, seconds=LIST_SECONDS)
            return await asyncio.to_thread(_head, file)
        except (DownloadError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UpgradeFailure(14, f"{self.name(path)}: {reason}") from None


def repository(text: str, root: Path, default: Path, *, http: bool) -> Repository:
    """The repository that ``text`` names.

    ``./x`` is a folder below ``root``, ``/x`` any folder, the empty text ``default``, anything else an address: with
    ``http://`` or ``https://`` in front, or without for the one that ``http`` chooses.
    """
    if text.startswith("./"):
        return Repository(root / text)
    if not text or text.startswith("/"):
        return Repository(Path(text) if text else default)
    address = text if "://" in text else f"{'http' if http else 'https'}://{text}"
    return Repository(address if address.endswith("/") else f"{address}/")


def _check(*words: str) -> None:
    for word in words:
        if not _WORD.fullmatch(word):
            raise UpgradeFailure(15, f"the agent calls its system {word[:64]!r}")


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(LIST_BYTES)
