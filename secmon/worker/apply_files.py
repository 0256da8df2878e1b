"""Keeps the worker's replicated files equal to the master's (architecture.md, Replication)."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError, os_text
from secmon.common.files.manifest import Difference, Entry
from secmon.common.files.scan import Scanner
from secmon.common.files.watch import FolderWatch
from secmon.common.to_the_end import to_the_end
from secmon.config.options import InternalOptions
from secmon.worker.fetch_files import TargetManifest, fetch_contents, fetch_target, split
from secmon.worker.install_files import FileInstaller
from secmon.worker.link_listener import Link
from secmon.worker.staging import FileOwner, Staging

_log = logging.getLogger(__name__)

_BATCH_BYTES = 512 << 20
_BATCH_FILES = 25_000
_RESCAN_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """Limits of what a worker accepts, and intervals in seconds."""

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
class _RoundResult:
    """The result of one round."""

    started: datetime
    missing: int = 0
    shared: int = 0
    extra: int = 0
    complete: bool = True

    @property
    def idle(self) -> bool:
        return not (self.missing or self.shared or self.extra)


class FileApplier:
    """Makes this node's files those of the master, whether the master's have changed or the replica was edited.

    A ``LinkListener`` whose methods return at once; :meth:`run` does the work. A round compares, fetches missing files
    into staging, verifies them, flushes them once, renames them into place and deletes extra files. When a round fails,
    no file is partly written, the master gets the error (``FilesAck.error``), and the round is repeated: after growing
    pauses, or at once when a newer push arrives.

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
        self._pushed = asyncio.Event()
        self._watch = FolderWatch(root, self._wake.set)
        self._link: Link | None = None
        self._target: TargetManifest | None = None
        self._pushes: list[pb.FilesPush] = []
        self._target_outdated = True
        self._full_scan_due = True
        self._applied = ("", 0)
        self._digest = ""

    def position(self) -> pb.Position:
        """The master's position that this node last reached, and the digest of its files now."""
        epoch, revision = self._applied
        return pb.Position(epoch=epoch, revision=revision, digest=self._digest)

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        """Compare with the master, whatever is known from earlier sessions."""
        self._link = link
        self._pushes.clear()
        self._target_outdated = True
        self._wake_all()

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        match message.WhichOneof("message"):
            case "files":
                self._pushes.append(message.files)
                self._wake_all()
            case "heartbeat" if message.heartbeat.files.epoch:
                self._compare(message.heartbeat.files)

    async def disconnected(self, reason: str) -> None:
        self._link = None
        self._pushes.clear()

    async def run(self) -> None:
        """Apply until cancelled."""
        await asyncio.to_thread(self._clean)
        self._full_scan_due = self._target_outdated = True
        await self._watch.start()
        loop = asyncio.get_running_loop()
        full_at, pause = loop.time() + self._limits.anti_entropy_seconds, 0.0
        try:
            while True:
                if await self._run_round():
                    pause = 0.0
                    unstable = self._scanner.unstable
                    await _wait(self._wake, min(full_at - loop.time(), _RESCAN_SECONDS if unstable else math.inf))
                else:
                    pause = min(max(2 * pause, self._limits.retry_seconds), self._limits.retry_most_seconds)
                    await _wait(self._pushed, pause)
                self._wake.clear()
                self._pushed.clear()
                if loop.time() >= full_at:
                    self._full_scan_due = True
                    full_at = loop.time() + self._limits.anti_entropy_seconds
        finally:
            await self._watch.stop()
            await asyncio.to_thread(self._staging.clear)

    def _wake_all(self) -> None:
        self._wake.set()
        self._pushed.set()

    def _compare(self, master: pb.Position) -> None:
        """A heartbeat comes after the pushes that it includes: a target that differs with none left is wrong."""
        target = self._target
        if target is None or self._pushes:
            return
        if (target.epoch, target.revision, target.manifest.digest) != (master.epoch, master.revision, master.digest):
            self._target_outdated = True
            self._wake.set()

    async def _run_round(self) -> bool:
        """Run one round; return whether it is complete, i.e. nothing is to be repeated."""
        link = self._link
        result = _RoundResult(self._clock.now())
        try:
            await self._rescan()
            if link is None or link.channel is None:
                return True
            before = self._applied
            await self._synchronize(link, result)
        except (SecmonError, OSError) as error:
            text = os_text(error) if isinstance(error, OSError) else str(error)
            _log.warning("The files could not be brought up to date: %s", text)
            if link is self._link:
                self._acknowledge(result, text)
            return False
        finally:
            await asyncio.to_thread(self._staging.clear)
            self._digest = self._scanner.manifest.digest
        if result.complete and (self._applied != before or not result.idle):
            self._acknowledge(result, "")
        return result.complete

    async def _rescan(self) -> None:
        if self._watch.pending:
            await self._watch.debounce()
        touched = self._watch.take_touched()
        full, self._full_scan_due = self._full_scan_due or touched is None, False
        if full or touched is None:
            await asyncio.to_thread(self._scan, None)
        elif touched or self._scanner.unstable:
            await asyncio.to_thread(self._scan, touched | self._scanner.unstable)

    def _scan(self, touched: set[str] | None) -> None:
        self._watch.renew_watches()
        if touched is None:
            self._scanner.rescan()
        else:
            self._scanner.rescan_paths(touched)

    async def _synchronize(self, link: Link, result: _RoundResult) -> None:
        target = await self._update_target(link)
        difference = self._scanner.manifest.difference(target.manifest)
        # A special file where the master has a file is replaced by that; deleting it later would delete the file.
        stray = sorted(path for path in self._scanner.special_files if path not in target.manifest)
        if difference.empty and not stray:
            self._applied = (target.epoch, target.revision)
            return
        too_large = await self._install_missing(link, difference, result)
        if self._superseded():
            return  # go on with the newest
        if result.complete:
            await self._remove([*difference.extra, *stray], result)
            self._scanner.special_files.difference_update(stray)
        if too_large:
            limit = self._limits.max_file_bytes
            raise SecmonError(3045, f"larger than the limit of {limit} bytes: {', '.join(too_large[:10])}")
        if result.complete:
            self._applied = (target.epoch, target.revision)
            _log.info(
                "Files at revision %d: %d created, %d overwritten, %d deleted",
                target.revision,
                result.missing,
                result.shared,
                result.extra,
            )

    async def _update_target(self, link: Link) -> TargetManifest:
        """Advance the target by the pushes, or fetch it."""
        pushes, self._pushes = self._pushes, []
        target = self._target
        for push in pushes:
            if target is None or not target.apply_push(push, self._limits.max_files):
                self._target_outdated = True
                break
        if self._target_outdated or target is None:
            target = await fetch_target(link, target, self._scanner.manifest, self._limits.max_files)
            self._target, self._target_outdated = target, False
        return target

    async def _install_missing(self, link: Link, difference: Difference, result: _RoundResult) -> list[str]:
        """Create and overwrite files; return the paths that exceed the size limit."""
        wanted = {**difference.missing, **difference.shared}
        too_large = [path for path, entry in wanted.items() if entry.size > self._limits.max_file_bytes]
        for path in too_large:
            del wanted[path]
        for batch in split(list(wanted.items()), most_bytes=_BATCH_BYTES, most_files=_BATCH_FILES):
            placed = await self._install_batch(link, batch)
            result.missing += sum(path in difference.missing for path in placed)
            result.shared += sum(path in difference.shared for path in placed)
            if len(placed) < len(batch):
                # The others have changed on the master. The target is fetched in case the push about them is lost.
                result.complete, self._target_outdated = False, True
            if self._superseded():
                break
        return too_large

    def _superseded(self) -> bool:
        return self._target is not None and not all(self._target.covers(push) for push in self._pushes)

    async def _install_batch(self, link: Link, wanted: list[tuple[str, Entry]]) -> list[str]:
        """Fetch and install one batch; return the installed paths."""
        batch = await asyncio.to_thread(self._staging.begin, wanted)
        try:
            await fetch_contents(link, wanted, batch)
        finally:
            batch.close()
        placed = list(batch.received)
        if placed:
            await to_the_end(partial(self._install_files, batch.received, dict(wanted), batch.flush))
            self._notify_applied(placed)
        return placed

    def _install_files(self, staged: dict[str, Path], entries: dict[str, Entry], flush: Callable[[], None]) -> None:
        flush()
        try:
            for path, file in staged.items():
                self._installer.install(path, file)
                self._scanner.record_written(path, entries[path])
        finally:
            self._installer.sync()

    async def _remove(self, extra: list[str], result: _RoundResult) -> None:
        if not extra:
            return
        await to_the_end(partial(self._delete, extra))
        result.extra = len(extra)
        self._notify_applied(extra)

    def _delete(self, paths: list[str]) -> None:
        try:
            for path in paths:
                self._installer.remove(path)
                self._scanner.record_written(path, None)
        finally:
            self._installer.sync()

    def _notify_applied(self, paths: Sequence[str]) -> None:
        for listener in self.on_applied:
            listener(paths)

    def _clean(self) -> None:
        self._staging.clear()
        self._installer.remove_leftovers()

    def _acknowledge(self, result: _RoundResult, error: str) -> None:
        if self._link is None:
            return
        ack = pb.FilesAck(
            position=self.position(),
            missing=result.missing,
            shared=result.shared,
            extra=result.extra,
            started=result.started.timestamp(),
            ended=self._clock.now().timestamp(),
            error=error,
        )
        try:
            self._link.send(pb.WorkerMessage(files_ack=ack))
        except SecmonError:
            _log.debug("The session ended before the files were acknowledged")


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until ``event`` is set, for at most ``seconds``."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return
