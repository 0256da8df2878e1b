"""The worker's replicated files: kept equal to the master's, whoever changed them (architecture.md, Replication)."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from grpc import aio

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError, os_text
from secmon.common.files.manifest import Difference, Entry
from secmon.common.files.scan import Scanner
from secmon.common.files.watch import FolderWatch
from secmon.config.options import InternalOptions
from secmon.worker.apply_security import Link
from secmon.worker.fetch_files import TargetManifest, fetch_contents, fetch_target, split
from secmon.worker.install_files import FileInstaller
from secmon.worker.staging import FileOwner, Staging
from secmon.worker.streams import in_thread

_log = logging.getLogger(__name__)

_BATCH_BYTES = 512 << 20
_BATCH_FILES = 25_000
_UNSETTLED_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """Bounds of what a worker accepts, and its rhythm."""

    max_file_bytes: int = 1 << 30
    max_files: int = 200_000
    anti_entropy_seconds: float = 60.0
    retry_seconds: float = 1.0
    retry_most_seconds: float = 30.0

    @classmethod
    def of(cls, options: InternalOptions) -> "FileLimits":
        """The ``clusterd.*`` internal options."""
        return cls(
            max_file_bytes=options.get("clusterd.max_file_size_mb") << 20,
            max_files=options.get("clusterd.max_files"),
            anti_entropy_seconds=options.get("clusterd.anti_entropy"),
        )


@dataclass
class _Report:
    """What one round did."""

    started: datetime
    missing: int = 0
    shared: int = 0
    extra: int = 0
    complete: bool = True

    @property
    def idle(self) -> bool:
        return not (self.missing or self.shared or self.extra)


class FileApplier:
    """Follows the master's file set and mends what differs on this node.

    Listens to the link (``connected``, ``received``, ``disconnected``, all returning at once); :meth:`run` does the
    work. A round compares, fetches what is missing aside, verifies it, flushes it once, renames it into place and
    deletes what is extra. Whenever it fails, no file is half-written, the master hears why (``FilesAck.error``) and
    the round is tried again: with growing pauses, or at once when something newer is pushed.

    ``on_applied`` are called on the event loop with the paths (below the installation folder) that a batch changed.
    """

    def __init__(
        self,
        root: Path,
        staging: Path,
        *,
        clock: Clock,
        limits: FileLimits | None = None,
        owner: FileOwner | None = None,
    ) -> None:
        self.on_applied: list[Callable[[Sequence[str]], None]] = []
        self._clock = clock
        self._limits = limits or FileLimits()
        self._scanner = Scanner(root, clock=clock)
        self._staging = Staging(staging, owner or FileOwner())
        self._installer = FileInstaller(root, owner or FileOwner())
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._watch = FolderWatch(root, self._wake.set)
        self._link: Link | None = None
        self._target: TargetManifest | None = None
        self._pushes: list[pb.FilesPush] = []
        self._stale = True
        self._full = True
        self._applied = ("", 0)
        self._digest = ""

    def position(self) -> pb.Position:
        """The master's position that this node last was equal to, and the digest of its own files now."""
        epoch, revision = self._applied
        return pb.Position(epoch=epoch, revision=revision, digest=self._digest)

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        """A session began: compare, whatever is known from earlier ones."""
        self._link = link
        self._pushes.clear()
        self._stale = True
        self._hurry()

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        match message.WhichOneof("message"):
            case "files":
                self._pushes.append(message.files)
                self._hurry()
            case "heartbeat" if message.heartbeat.files.epoch:
                self._compare(message.heartbeat.files)

    async def disconnected(self, reason: str) -> None:
        self._link = None
        self._pushes.clear()

    async def run(self) -> None:
        """Apply until cancelled."""
        await asyncio.to_thread(self._clean)
        self._full = self._stale = True
        await self._watch.start()
        loop = asyncio.get_running_loop()
        full_at, pause = loop.time() + self._limits.anti_entropy_seconds, 0.0
        try:
            while True:
                if await self._attempt():
                    pause = 0.0
                    unsettled = self._scanner.unsettled
                    await _wait(self._wake, min(full_at - loop.time(), _UNSETTLED_SECONDS if unsettled else math.inf))
                else:
                    pause = min(max(2 * pause, self._limits.retry_seconds), self._limits.retry_most_seconds)
                    await _wait(self._news, pause)
                self._wake.clear()
                self._news.clear()
                if loop.time() >= full_at:
                    self._full = True
                    full_at = loop.time() + self._limits.anti_entropy_seconds
        finally:
            await self._watch.stop()
            await asyncio.to_thread(self._staging.clear)

    def _hurry(self) -> None:
        self._wake.set()
        self._news.set()

    def _compare(self, master: pb.Position) -> None:
        """A beat comes after the pushes it knows of: a target that differs once they are taken is wrong."""
        target = self._target
        if target is None or self._pushes:
            return
        if (target.epoch, target.revision, target.manifest.digest) != (master.epoch, master.revision, master.digest):
            self._stale = True
            self._wake.set()

    async def _attempt(self) -> bool:
        """One round; whether there is nothing to try again."""
        link = self._link
        report = _Report(self._clock.now())
        try:
            await self._rescan()
            if link is None or link.channel is None:
                return True
            before = self._applied
            await self._round(link.channel, report)
        except (SecmonError, OSError) as error:
            text = os_text(error) if isinstance(error, OSError) else str(error)
            _log.warning("The files could not be brought up to date: %s", text)
            if link is self._link:
                self._acknowledge(report, text)
            return False
        finally:
            await asyncio.to_thread(self._staging.clear)
            self._digest = self._scanner.manifest.digest
        if report.complete and (self._applied != before or not report.idle):
            self._acknowledge(report, "")
        return report.complete

    async def _rescan(self) -> None:
        if self._watch.pending:
            await self._watch.settled()
        touched = self._watch.take()
        full, self._full = self._full or touched is None, False
        if full or touched is None:
            await asyncio.to_thread(self._scan, None)
        elif touched or self._scanner.unsettled:
            await asyncio.to_thread(self._scan, touched | self._scanner.unsettled)

    def _scan(self, touched: set[str] | None) -> None:
        self._watch.renew()
        if touched is None:
            self._scanner.rescan()
        else:
            self._scanner.rescan_paths(touched)

    async def _round(self, channel: aio.Channel, report: _Report) -> None:
        target = await self._follow(channel)
        difference = self._scanner.manifest.difference(target.manifest)
        # What the master has a file for is replaced by that; deleting it afterwards would delete the file.
        foreign = sorted(path for path in self._scanner.foreign if path not in target.manifest)
        if difference.empty and not foreign:
            self._applied = (target.epoch, target.revision)
            return
        too_large = await self._fill(channel, difference, report)
        if self._superseded():
            return  # go on with the newest
        if report.complete:
            await self._remove([*difference.extra, *foreign], report)
            self._scanner.foreign.difference_update(foreign)
        if too_large:
            limit = self._limits.max_file_bytes
            raise SecmonError(3045, f"larger than the limit of {limit} bytes: {', '.join(too_large[:10])}")
        if report.complete:
            self._applied = (target.epoch, target.revision)
            _log.info(
                "Files at revision %d: %d created, %d overwritten, %d deleted",
                target.revision,
                report.missing,
                report.shared,
                report.extra,
            )

    async def _follow(self, channel: aio.Channel) -> TargetManifest:
        """The newest target: by the pushes that came, or asked for."""
        pushes, self._pushes = self._pushes, []
        target = self._target
        for push in pushes:
            if target is None or not target.follow(push, self._limits.max_files):
                self._stale = True
                break
        if self._stale or target is None:
            target = await fetch_target(channel, target, self._scanner.manifest, self._limits.max_files)
            self._target, self._stale = target, False
        return target

    async def _fill(self, channel: aio.Channel, difference: Difference, report: _Report) -> list[str]:
        """Create and overwrite; the paths that are too large to be accepted."""
        wanted = {**difference.missing, **difference.shared}
        too_large = [path for path, entry in wanted.items() if entry.size > self._limits.max_file_bytes]
        for path in too_large:
            del wanted[path]
        for batch in split(list(wanted.items()), most_bytes=_BATCH_BYTES, most_files=_BATCH_FILES):
            placed = await self._apply(channel, batch)
            report.missing += sum(path in difference.missing for path in placed)
            report.shared += sum(path in difference.shared for path in placed)
            if len(placed) < len(batch):
                # They changed on the master since: its next push says how. Ask, in case it is lost.
                report.complete, self._stale = False, True
            if self._superseded():
                break
        return too_large

    def _superseded(self) -> bool:
        return self._target is not None and not all(self._target.covers(push) for push in self._pushes)

    async def _apply(self, channel: aio.Channel, wanted: list[tuple[str, Entry]]) -> list[str]:
        """Fetch and place one batch; the paths that are in place."""
        batch = await asyncio.to_thread(self._staging.begin, wanted)
        try:
            await fetch_contents(channel, wanted, batch)
        finally:
            batch.close()
        placed = list(batch.received)
        if placed:
            await in_thread(partial(self._place, batch.received, dict(wanted), batch.barrier))
            self._tell(placed)
        return placed

    def _place(self, staged: dict[str, Path], entries: dict[str, Entry], barrier: Callable[[], None]) -> None:
        barrier()
        try:
            for path, file in staged.items():
                self._installer.place(path, file)
                self._scanner.adopt(path, entries[path])
        finally:
            self._installer.sync()

    async def _remove(self, extra: list[str], report: _Report) -> None:
        if not extra:
            return
        await in_thread(partial(self._delete, extra))
        report.extra = len(extra)
        self._tell(extra)

    def _delete(self, paths: list[str]) -> None:
        try:
            for path in paths:
                self._installer.remove(path)
                self._scanner.adopt(path, None)
        finally:
            self._installer.sync()

    def _tell(self, paths: Sequence[str]) -> None:
        for listener in self.on_applied:
            listener(paths)

    def _clean(self) -> None:
        self._staging.clear()
        self._installer.clean()

    def _acknowledge(self, report: _Report, error: str) -> None:
        if self._link is None:
            return
        ack = pb.FilesAck(
            position=self.position(),
            missing=report.missing,
            shared=report.shared,
            extra=report.extra,
            started=report.started.timestamp(),
            ended=self._clock.now().timestamp(),
            error=error,
        )
        try:
            self._link.send(pb.WorkerMessage(files_ack=ack))
        except SecmonError:
            _log.debug("The session ended before its files could be acknowledged")


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until ``event`` is set, for at most ``seconds``."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return
