"""Replacing the advisory files of a node by what a feed has, and going back to those before."""

import logging
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from secmon.common.file_io import sync_folder, write_file
from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, advisory_files, ecosystem_in, file_name
from secmon.knowledge.vulnerabilities.feed_files import RawRecord
from secmon.knowledge.vulnerabilities.osv import read_record
from secmon.knowledge.vulnerabilities.records import FeedError, FeedRecord
from secmon.knowledge.vulnerabilities.staging import Staging

log = logging.getLogger("secmon.knowledge")

_FILE_MODE = 0o660
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
    building: Callable[[str], None] = lambda ecosystem: None,
) -> Imported:
    """Read all records of a feed, then put the changed files in force together; those before are kept.

    ``only``: which ecosystems are taken. ``full``: records that the feed does not have go, in the ecosystems that it
    has. ``building`` gets the ecosystem whose file is built. Raises FeedError, and OSError; nothing is in force then.
    """
    paths.advisories.mkdir(mode=0o770, parents=True, exist_ok=True)
    paths.previous_advisories.parent.mkdir(mode=0o770, parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="advisories-", dir=paths.previous_advisories.parent) as name:
        folder = Path(name)
        try:
            with Staging(folder) as staging:
                staging.add(_taken(source, only, counts))
                here = {each: path for each, path in _files_here(paths).items() if only(each)}
                built = _build(staging, here, full, building)
        except sqlite3.Error as error:
            raise FeedError(f"the files cannot be built: {error}") from None
        ecosystems = {ecosystem: _records(path) for ecosystem, path in built.items()}
        _install(paths, built.values())
    return Imported(counts["records"], counts["unused"], ecosystems)


def roll_back(paths: Paths) -> list[str]:
    """Put the files before the last import back; the names of those that have changed. Raises OSError."""
    previous = paths.previous_advisories
    if not previous.exists():
        return []
    changed = []
    for path in advisory_files(previous):
        os.replace(path, paths.advisories / path.name)
        changed.append(path.name)
    added = previous / _ADDED
    for name in added.read_text().split("\n") if added.exists() else ():
        if name:
            (paths.advisories / name).unlink(missing_ok=True)
            changed.append(name)
    sync_folder(paths.advisories)
    shutil.rmtree(previous)
    return sorted(changed)


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


def _build(staging: Staging, here: Mapping[str, Path], full: bool, building: Callable[[str], None]) -> dict[str, Path]:
    """The changed files by ecosystem, each in the staging folder."""
    wanted = dict.fromkeys(staging.ecosystems())
    built = {}
    for ecosystem in [*wanted, *(each for each in here if each not in wanted)]:
        target = staging.folder / file_name(ecosystem)
        building(ecosystem)
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
    previous = paths.previous_advisories
    shutil.rmtree(previous, ignore_errors=True)
    previous.mkdir(mode=0o770)
    added = []
    for path in files:
        current = paths.advisories / path.name
        if current.exists():
            os.link(current, previous / path.name)
        else:
            added.append(path.name)
    write_file(previous / _ADDED, "\n".join(added).encode())
    sync_folder(previous)
    for path in files:
        path.chmod(_FILE_MODE)
        os.replace(path, paths.advisories / path.name)
    sync_folder(paths.advisories)
