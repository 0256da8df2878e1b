"""Replacing the advisory files of a node by what a feed has, and going back to those before."""

import logging
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from secmon.common.file_io import sync_folder, write_file
from secmon.common.paths import Paths
from secmon.common.sqlite.files import folder_lock
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, advisory_files, ecosystem_in, file_name
from secmon.knowledge.vulnerabilities.feed_files import RawRecord
from secmon.knowledge.vulnerabilities.osv import read_record
from secmon.knowledge.vulnerabilities.records import FeedError, FeedRecord
from secmon.knowledge.vulnerabilities.staging import Staging

log = logging.getLogger("secmon.knowledge")

_FILE_MODE = 0o660
_WORK = "advisories-"
_ADDED = "added"
"""In the folder of the files before: names of those that were not there."""


class Imported(NamedTuple):
    """What an import has done. ``ecosystems``: records in each file that has changed, now."""

    records: int
    unused: int
    """Records about packages that no agent reports, or of other ecosystems than asked for."""
    ecosystems: dict[str, int]


def import_feed(
    paths: Paths,
    source: Iterable[RawRecord],
    *,
    only: Callable[[str], bool] = lambda ecosystem: True,
    full: bool = False,
) -> Imported:
    """Read all records of a feed, then put the changed files in force together; those before are kept.

    ``only``: which ecosystems are taken. ``full``: records that the feed does not have go, in the ecosystems that it
    has. Raises FeedError, and OSError; nothing is in force then.
    """
    counts: Counter[str] = Counter()
    with _alone(paths), _work_folder(paths) as folder:
        try:
            with Staging(folder) as staging:
                staging.add(_taken(source, only, counts))
                here = {each: path for each, path in _files_here(paths).items() if only(each)}
                built = _build(staging, here, full)
        except sqlite3.Error as error:
            raise FeedError(f"the files cannot be built: {error}") from None
        ecosystems = {ecosystem: _records(path) for ecosystem, path in built.items()}
        _install(paths, built.values())
    return Imported(counts["records"], counts["unused"], ecosystems)


def roll_back(paths: Paths) -> list[str]:
    """Put the files before the last import back; the names of those that have changed. Raises OSError."""
    previous = paths.previous_advisories
    with _alone(paths):
        if not previous.exists():
            return []
        replaced = [path.name for path in advisory_files(previous)]
        added = (previous / _ADDED).read_text().split()
        for name in replaced:
            os.replace(previous / name, paths.advisories / name)
        for name in added:
            (paths.advisories / name).unlink(missing_ok=True)
        sync_folder(paths.advisories)
        shutil.rmtree(previous)
    return sorted([*replaced, *added])


@contextmanager
def _alone(paths: Paths) -> Iterator[None]:
    """Wait for other imports, and hold them off."""
    paths.advisories.mkdir(mode=0o770, parents=True, exist_ok=True)
    with folder_lock(paths.advisories):
        yield


@contextmanager
def _work_folder(paths: Paths) -> Iterator[Path]:
    """A folder beside the files of before; those of imports that were killed are removed."""
    parent = paths.previous_advisories.parent
    parent.mkdir(mode=0o770, parents=True, exist_ok=True)
    for left in parent.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=parent) as name:
        yield Path(name)


def _taken(source: Iterable[RawRecord], only: Callable[[str], bool], counts: Counter[str]) -> Iterator[FeedRecord]:
    for place, content in source:
        try:
            record = read_record(content)
        except FeedError as error:
            raise FeedError(f"{place}: {error}") from None
        wanted = {ecosystem: ranges for ecosystem, ranges in record.ranges.items() if only(ecosystem)}
        counts["records"] += 1
        counts["unused"] += not wanted
        yield FeedRecord(advisory=record.advisory, modified=record.modified, ranges=wanted)
    if not counts["records"]:
        raise FeedError("there are no records")


def _files_here(paths: Paths) -> dict[str, Path]:
    """The files in force by ecosystem; damaged ones are left out, and so replaced."""
    found = {}
    for path in advisory_files(paths.advisories):
        try:
            found[ecosystem_in(path)] = path
        except FeedError as error:
            log.warning("%s", error)
    return found


def _build(staging: Staging, here: Mapping[str, Path], full: bool) -> dict[str, Path]:
    """The changed files by ecosystem, each in the staging folder."""
    wanted = dict.fromkeys(staging.ecosystems())
    built = {}
    others = (ecosystem for ecosystem, old in here.items() if ecosystem not in wanted and staging.has_newer(old))
    for ecosystem in (*wanted, *others):
        target = staging.folder / file_name(ecosystem)
        old = None if full and ecosystem in wanted else here.get(ecosystem)
        if staging.build(ecosystem, old, target):
            built[ecosystem] = target
    return built


def _records(path: Path) -> int:
    with closing(AdvisoryFile(path)) as file:
        return file.counts()[0]


def _install(paths: Paths, built: Iterable[Path]) -> None:
    """Keep the files that are replaced, then replace each at once."""
    files = list(built)
    if not files:
        return
    _keep_current(paths, [path.name for path in files])
    for path in files:
        path.chmod(_FILE_MODE)
        os.replace(path, paths.advisories / path.name)
    sync_folder(paths.advisories)


def _keep_current(paths: Paths, names: Sequence[str]) -> None:
    """Put the files in force with these names, and which of them there are none of, in the place of those before."""
    previous = paths.previous_advisories
    new = previous.with_name(f"{_WORK}previous")
    new.mkdir(mode=0o770)
    added = [name for name in names if not (paths.advisories / name).exists()]
    for name in set(names) - set(added):
        os.link(paths.advisories / name, new / name)
    write_file(new / _ADDED, "\n".join(added).encode())
    sync_folder(new)
    shutil.rmtree(previous, ignore_errors=True)
    os.replace(new, previous)
    sync_folder(previous.parent)
