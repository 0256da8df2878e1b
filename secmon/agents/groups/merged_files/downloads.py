"""Downloads of group files and assignments of agents, as configured in ``files.yml``."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.agent_conf import verify_agent_conf
from secmon.agents.groups.files_yml import MAX_BYTES, FilesYml, GroupFiles, parse_files_yml
from secmon.agents.groups.folders import AGENT_CONF, FILE_MODE, FILES_YML, MERGED, create_group, group_exists
from secmon.agents.groups.merged_files.format import MergedError, split
from secmon.agents.groups.merged_files.group_folder import MAX_FILE
from secmon.agents.groups.merged_files.task import MergedFileTask
from secmon.agents.names import padded
from secmon.agents.registry import registry
from secmon.agents.registry.store import AgentStore
from secmon.common.counters import Counters
from secmon.common.download import DownloadError, download, without_query
from secmon.common.errors import SecmonError, os_text
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.followed_file import FollowedFile

_log = logging.getLogger("secmon.modulesd.groups")

DOWNLOAD_SECONDS = 120.0
AT_ONCE = 8
"""Groups that are downloaded at the same time."""
MAX_GROUP = 2 * MAX_FILE
"""Bytes of the files of a group, which are in memory until all have come."""


class GroupFileDownloads:
    """Applies ``files.yml`` on the master. If a new version is invalid, the last valid one remains in force."""

    def __init__(
        self, paths: Paths, store: AgentStore, merged_files: MergedFileTask, *, counters: Counters, poll_seconds: float,
        download_seconds: float = DOWNLOAD_SECONDS, trust: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """``poll_seconds``: between two checks of the file; ``trust`` as in ``download``."""
        self._paths, self._store, self._merged_files, self._counters = paths, store, merged_files, counters
        self._poll_seconds, self._download_seconds, self._trust = poll_seconds, download_seconds, trust
        self._file = FollowedFile(
            paths.shared / FILES_YML, parse_files_yml, max_bytes=MAX_BYTES, log=_log, counters=counters
        )
        self._wanted = FilesYml()
        self._due: dict[str, float] = {}
        self._downloads: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._unassigned: dict[int, str] = {}
        self._absent: set[str] = set()
        self._revision = -1

    async def prepare(self) -> None:
        """Read the file before anything is built, so that downloaded merged files are not replaced."""
        await self._read()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._read()
                self._start_downloads()
                if self._unassigned:
                    await asyncio.to_thread(self._assign)
                await asyncio.sleep(self._poll_seconds)
        finally:
            for task in self._downloads.values():
                task.cancel()
            await asyncio.gather(*self._downloads.values(), return_exceptions=True)

    async def _read(self) -> None:
        wanted = await asyncio.to_thread(self._file.changed)
        if wanted is not None:
            self._take_over(wanted)

    def _take_over(self, wanted: FilesYml) -> None:
        before, self._wanted = self._wanted, wanted
        changed = {name for name, each in wanted.groups.items() if before.groups.get(name) != each}
        for name in [name for name in self._downloads if name in changed or name not in wanted.groups]:
            self._downloads.pop(name).cancel()
        self._due = {name: 0.0 if name in changed else self._due.get(name, 0.0) for name in wanted.groups}
        self._unassigned, self._revision, self._absent = dict(wanted.agents), -1, set()
        self._merged_files.receive([name for name, each in wanted.groups.items() if each.merged])
        if wanted != before:
            _log.info("%s: %d groups, %d agents", FILES_YML, len(wanted.groups), len(wanted.agents))

    def _start_downloads(self) -> None:
        now = asyncio.get_running_loop().time()
        self._downloads = {name: task for name, task in self._downloads.items() if not task.done()}
        for name, group in self._wanted.groups.items():
            if self._due[name] <= now and name not in self._downloads:
                self._due[name] = now + group.poll
                self._downloads[name] = asyncio.create_task(self._download_group(name, group), name=f"files of {name}")

    async def _download_group(self, name: str, group: GroupFiles) -> None:
        async with self._slots:
            try:
                if not await asyncio.to_thread(group_exists, self._paths, name):
                    await asyncio.to_thread(create_group, self._paths, name)
                    _log.info("The group %s was created for %s", name, FILES_YML)
                wanted = {MERGED: group.files[MERGED]} if group.merged else group.files
                found: dict[str, bytes] = {}
                for each, url in wanted.items():
                    left = MAX_GROUP - sum(map(len, found.values()))
                    if (data := await self._fetch(name, each, url, limit=min(left, MAX_FILE))) is not None:
                        found[each] = data
                async with self._merged_files.suspended():
                    changed = await asyncio.to_thread(_place, self._paths.shared / name, found)
                _log.info("Group %s: %d of %d files downloaded, %d changed", name, len(found), len(wanted), changed)
            except SecmonError as error:
                self._failed(f"the group {name} could not be created: {error.message}")
            except OSError as error:
                self._failed(f"the files of {name} could not be written: {os_text(error)}")

    async def _fetch(self, group: str, name: str, url: str, *, limit: int) -> bytes | None:
        """The content; None if the download failed or is invalid, and the old file is kept until the next one."""
        try:
            data = await download(url, limit=limit, seconds=self._download_seconds, trust=self._trust)
            await asyncio.to_thread(_check, name, data)
        except (DownloadError, MergedError) as error:
            self._failed(f"{group}/{name} from {without_query(url)}: {error}; the old file is kept")
            return None
        self._counters.add("downloads.succeeded")
        return data

    def _failed(self, text: str) -> None:
        self._counters.add("downloads.failed")
        _log.error("%s: %s", FILES_YML, text)

    def _assign(self) -> None:
        """Assign agents to their groups; those with an unknown agent or group are retried when these exist."""
        try:
            revision = self._store.revision()
            absent = {group for group in self._unassigned.values() if not group_exists(self._paths, group)}
            if revision == self._revision and absent == self._absent:
                return
            for group in sorted(absent - self._absent):
                _log.warning("%s: agents wait for the group %s, which does not exist", FILES_YML, group)
            with self._store.read() as connection:
                present = [agent for agent in self._unassigned if registry.find(connection, agent) is not None]
            self._move({agent: self._unassigned[agent] for agent in present if self._unassigned[agent] not in absent})
            self._revision, self._absent = revision, absent
        except SQLAlchemyError as error:
            _log.error("%s: agents could not be put into their groups: %s", FILES_YML, error)

    def _move(self, wanted: Mapping[int, str]) -> None:
        if not wanted:
            return
        with self._store.write() as connection:
            found = [entry for agent in wanted if (entry := registry.find(connection, agent)) is not None]
            moved = registry.assign(
                connection, {entry.id: (wanted[entry.id],) for entry in found if wanted[entry.id] not in entry.groups}
            )
        for agent in wanted:
            del self._unassigned[agent]
        for agent in moved:
            _log.info("%s: agent %s was put into the group %s", FILES_YML, padded(agent), wanted[agent])


def _check(name: str, data: bytes) -> None:
    """Check a file before it is shared with agents. Raises MergedError, DownloadError."""
    if name == MERGED:
        split(data)
    elif name == AGENT_CONF and (problems := verify_agent_conf(data).problems):
        raise DownloadError("; ".join(str(each) for each in problems[:3]))


def _place(folder: Path, files: Mapping[str, bytes]) -> int:
    """Write files that differ from those on the disk; how many. Raises OSError."""
    changed = 0
    for name, data in files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
            write_file(path, data, FILE_MODE)
            changed += 1
    return changed
