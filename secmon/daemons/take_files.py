"""What a new master does before it publishes files: they become what is recorded."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from secmon.agents.groups.folders import MERGED
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress, record_at
from secmon.cluster.record.file_record import differences, is_recorded, read_content, recorded_files
from secmon.cluster.record.writes import check_term
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.file_io import write_file
from secmon.common.files.manifest import Entry
from secmon.common.files.scan import Scanner
from secmon.common.paths import Paths
from secmon.daemons.takeover import READ_SECONDS
from secmon.worker.install_files import FileInstaller
from secmon.worker.staging import FileOwner, Staging

log = logging.getLogger("secmon.clusterd.master")

_TRIES = 3


def take_files(paths: Paths, address: RecordAddress, term: Term, clock: Clock) -> None:
    """Replace files that differ from the recorded ones; what was here is kept aside and named. Blocks.

    Raises SecmonError 3050 and 3051.
    """
    with (
        record_at(address, statement_seconds=READ_SECONDS) as record,
        record.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        connection.begin(),
    ):
        check_term(connection, term)
        take_recorded_files(connection, paths, f"before-term-{term.number}", clock)


def take_recorded_files(connection: Connection, paths: Paths, aside: str, clock: Clock) -> None:
    """As above, in the transaction of ``connection``; ``aside`` names the folder of what was here."""
    recorded = recorded_files(connection)
    scanner = Scanner(paths.root, clock=clock)
    scanner.rescan()
    found = scanner.manifest.entries()
    here = {path: entry for path, entry in found.items() if is_recorded(path)}
    wrong = differences(here, recorded)
    _keep_aside(paths, [path for path in wrong if path in here], aside)
    _install(connection, paths, {path: recorded[path] for path in wrong if path in recorded})
    _remove(paths, [path for path in wrong if path not in recorded])
    _remove_groups(paths, _groups(found) - _groups(recorded))


def _keep_aside(paths: Paths, wrong: Sequence[str], aside: str) -> None:
    folder = paths.unrecorded_files / aside
    for path in wrong:
        target = folder / path
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        write_file(target, (paths.root / path).read_bytes())
    if wrong:
        shown = ", ".join(sorted(wrong)[:10])
        log.warning("%d files differed from the recorded ones and are kept below %s: %s", len(wrong), folder, shown)


def _install(connection: Connection, paths: Paths, wanted: Mapping[str, Entry]) -> None:
    if not wanted:
        return
    staging = Staging(paths.cluster / "recorded", FileOwner())
    batch = staging.begin(list(wanted.items()))
    try:
        for index, entry in enumerate(wanted.values()):
            left = entry.size
            for part in read_content(connection, entry):
                left -= len(part)
                batch.write([pb.FileChunk(index=index, data=part, last=left <= 0)], 0)
        batch.flush()
        installer = FileInstaller(paths.root, FileOwner())
        for path, staged in batch.received.items():
            installer.install(path, staged)
        installer.sync()
    finally:
        batch.close()
        staging.clear()


def _remove(paths: Paths, gone: Sequence[str]) -> None:
    installer = FileInstaller(paths.root, FileOwner())
    for path in gone:
        installer.remove(path)
    installer.sync()


def _groups(files: Iterable[str]) -> set[str]:
    """Names of the groups to which files belong."""
    shared = (path.split("/")[2:] for path in files if path.startswith("etc/shared/"))
    return {inside[0] for inside in shared if len(inside) > 1}


def _remove_groups(paths: Paths, gone: Iterable[str]) -> None:
    """Remove what is left of groups without a recorded file: their merged files, which are not recorded.

    A group is a folder: one that was deleted would be there again. ``secmon-modulesd`` may just have written the file.
    """
    installer = FileInstaller(paths.root, FileOwner())
    for group in gone:
        for _ in range(_TRIES):
            installer.remove(f"etc/shared/{group}/{MERGED}")
            installer.sync()
            if not (paths.shared / group).exists():
                break
