"""Finds changes of the master's replicated files and pushes them to workers (architecture.md, Replication)."""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Protocol

from secmon.cluster.files.manifest_codec import to_wire
from secmon.cluster.record.file_record import FileChanged
from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Delta, Entry, Manifest
from secmon.common.files.scan import Scanner
from secmon.common.files.watch import FolderWatch
from secmon.common.logfile.trouble_log import TroubleLog
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.master.worker_session import Subscriber

_log = logging.getLogger(__name__)

BULK = 5000
"""Entries of a change above which workers fetch the manifest instead."""
ERROR_LENGTH = 300
"""Characters of a worker's error that are logged and shown."""
_RESCAN_SECONDS = 0.5


class FileRecord(Protocol):
    """Where changes of files are recorded before workers get them."""

    def paths(self) -> Set[str]:
        """Those of all recorded files. Blocks. Raises SecmonError."""

    def put(self, changed: Delta) -> None:
        """Blocks. Raises SecmonError, and FileChanged; the same changes can be put again then."""


class FilePublisher:
    """Keeps the manifest of the master's files current and pushes each change to every session.

    A ``SessionListener``. A position is (epoch, revision, digest): the epoch names
    this run of the publisher, the revision grows with each change, so that idle heartbeats cost the same for any number
    of files. :meth:`run` must run; everything else is called on its event loop.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        counters: Counters,
        anti_entropy_seconds: float = 60.0,
        kept_changes: int = 256,
        record: FileRecord | None = None,
    ) -> None:
        self._counters = counters
        self._record = record
        self._unrecorded: dict[str, Entry | None] = {}
        self._doubtful = False
        """Whether some of these may be recorded after all: the answer to an attempt was lost."""
        self._scanning = asyncio.Lock()
        self._warnings = WarningLimiter(_log, clock)
        self._waiting = TroubleLog(_log)
        self._anti_entropy_seconds = anti_entropy_seconds
        self._scanner = Scanner(root, clock=clock)
        self._touched = asyncio.Event()
        self._watch = FolderWatch(root, self._touched.set)
        self._published = Manifest()
        self._history: deque[tuple[int, Delta]] = deque(maxlen=kept_changes)
        self._sessions: list[Subscriber] = []
        self._ready = asyncio.Event()
        self.epoch = secrets.token_hex(8)
        self.revision = 0

    async def run(self) -> None:
        """Publish until cancelled."""
        await self._watch.start()
        try:
            full = float("-inf")
            while True:
                now = asyncio.get_running_loop().time()
                everything = now >= full
                full = now + self._anti_entropy_seconds if everything else full
                try:
                    await self._scan_and_publish(everything=everything)
                except OSError:
                    if not self._ready.is_set():
                        raise
                    _log.exception("The replicated files could not be scanned; trying again with the next change")
                except (SecmonError, FileChanged) as error:
                    self._waiting.note("Changed files wait to be recorded: %s", _cause(error))
                await self._wait_for_change(full)
        finally:
            await self._watch.stop()

    async def settled(self) -> None:
        """Return when all changes made before this call are recorded and sent.

        Raises SecmonError 3052 when they cannot be recorded now: they wait for it. 3051 when this node is not the
        master any more: the files of the new one will replace them.
        """
        try:
            await self._scan_and_publish(everything=True)
        except (SecmonError, FileChanged) as error:
            if isinstance(error, SecmonError) and error.code == 3051 and not self._doubtful:
                raise
            cause = error.extra if isinstance(error, SecmonError) else str(error)
            raise SecmonError(3052, f"the files are changed, and wait to be recorded: {cause}") from error

    async def ready(self) -> None:
        """Return once the first scan is complete, and recorded."""
        await self._ready.wait()

    def position(self) -> pb.Position:
        """The current position; an empty epoch before it is ``ready``: workers keep the files that they have."""
        if not self._ready.is_set():
            return pb.Position()
        return pb.Position(epoch=self.epoch, revision=self.revision, digest=self._published.digest)

    def manifest(self) -> Mapping[str, Entry]:
        """All files; a copy."""
        return self._published.entries()

    def changes_since(self, epoch: str, revision: int) -> Delta | None:
        """Changes after ``revision``; None if they are unknown, or too many to be worth it."""
        if epoch != self.epoch or not 0 < revision <= self.revision:
            return None
        if revision == self.revision:
            return {}
        if not self._history or self._history[0][0] > revision + 1:
            return None
        merged: dict[str, Entry | None] = {}
        for number, delta in self._history:
            if number > revision:
                merged.update(delta)
        return merged if len(merged) <= BULK else None

    def joined(self, session: Subscriber) -> None:
        self._sessions.append(session)

    def left(self, session: Subscriber) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    def received(self, session: Subscriber, message: pb.WorkerMessage) -> None:
        """Log and count failures of a worker, within the bounds of what a worker may make the master log."""
        self._warnings.tick()
        if message.WhichOneof("message") == "files_ack" and message.files_ack.error:
            self._counters.add("files.refused")
            error = message.files_ack.error[:ERROR_LENGTH]
            self._warnings.warn(
                f"files not applied by {session.name}", "Files not applied by %s: %s", session.name, error
            )

    async def _wait_for_change(self, full: float) -> None:
        """Wait for a change and the end of its burst, or until the loop's time is ``full``."""
        loop = asyncio.get_running_loop()
        again = self._scanner.unstable or self._unrecorded
        end = min(full, loop.time() + _RESCAN_SECONDS) if again else full
        try:
            async with asyncio.timeout_at(end):
                await self._touched.wait()
        except TimeoutError:
            return
        self._touched.clear()
        await self._watch.debounce()

    async def _scan_and_publish(self, *, everything: bool) -> None:
        async with self._scanning:
            touched = self._watch.take_touched()
            if everything or touched is None:
                delta = await asyncio.to_thread(self._scan, None)
            else:
                delta = await asyncio.to_thread(self._scan, touched | self._scanner.unstable)
            self._counters.set("files.replicated", len(self._scanner.manifest))
            self._counters.set("files.skipped", len(self._scanner.skipped))
            self._unrecorded.update(delta)
            await self._record_changes()
            delta, self._unrecorded = self._unrecorded, {}
            if delta or self.revision == 0:
                self._publish(delta)
                self._ready.set()

    async def _record_changes(self) -> None:
        """Workers get only what is recorded: a new master then has it, too."""
        self._counters.set("files.unrecorded", len(self._unrecorded))
        if self._record is not None and self._unrecorded:
            doubtful, self._doubtful = self._doubtful, True
            try:
                if self.revision == 0:
                    self._note_missing(await asyncio.to_thread(self._record.paths))
                await asyncio.to_thread(self._record.put, self._unrecorded)
            except (SecmonError, FileChanged) as error:
                self._doubtful = doubtful or (isinstance(error, SecmonError) and error.code != 3051)
                raise
            self._doubtful = False
            self._counters.set("files.unrecorded", 0)
        if self._waiting.over():
            _log.info("The changed files are recorded")

    def _note_missing(self, recorded: Set[str]) -> None:
        """Files that were removed while nothing published."""
        unknown = self._scanner.skipped | self._scanner.unstable  # files, and folders that cannot be read
        for path in recorded - self._scanner.manifest.entries().keys():
            if not any(path == one or path.startswith(f"{one}/") for one in unknown):
                self._unrecorded[path] = None

    def _scan(self, touched: set[str] | None) -> Delta:
        self._watch.renew_watches()
        return self._scanner.rescan() if touched is None else self._scanner.rescan_paths(touched)

    def _publish(self, delta: Delta) -> None:
        base = self.revision
        self._published.apply(delta)
        self.revision += 1
        if len(delta) > BULK:
            self._history.clear()
        else:
            self._history.append((self.revision, delta))
        position = pb.Position(epoch=self.epoch, revision=self.revision, digest=self._published.digest)
        push = pb.FilesPush(position=position)
        if base and len(delta) <= BULK:
            push.base = base
            push.entries.extend(to_wire(delta))
            if push.ByteSize() > PIECE_BYTES:
                push = pb.FilesPush(position=position)
        _log.info("Files at revision %d: %d changed", self.revision, len(delta))
        for session in self._sessions:
            session.send(pb.MasterMessage(files=push))


def _cause(error: SecmonError | FileChanged) -> str:
    """For the log, where each cause is named once: which file has changed meanwhile is no cause of its own."""
    return "they still change" if isinstance(error, FileChanged) else str(error)
