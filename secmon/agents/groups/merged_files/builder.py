"""Building the merged files that are out of date."""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from secmon.agents.groups.folders import AGENT_CONF, AR_CONF, FILE_MODE, MERGED, create_group, list_folders
from secmon.agents.groups.merged_files.format import MAX_MERGED, MergedError, MergedFile, latest, merge, split
from secmon.agents.groups.merged_files.group_folder import GroupFolder, Warnings, read_file
from secmon.agents.names import DEFAULT_GROUP, group_hash, split_groups
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.file_io import write_file
from secmon.common.files.categories import FOLDER_MODE
from secmon.common.files.scan import Stamp
from secmon.common.files.tree import opened_folder
from secmon.common.paths import Paths

_log = logging.getLogger("secmon.modulesd.groups")

_COMBINATION = re.compile(r"[0-9a-f]{8}")
_KEPT_BYTES = 64 << 20
"""Contents of groups that are kept in memory while the combinations are built."""


class _Built(NamedTuple):
    """The sources of a merged file, and its state when it was written."""

    sources: tuple[bytes, ...]
    stamp: Stamp
    digest: bytes
    stable: bool = True


class MergedFileBuilder:
    """Merged files of all groups and of the combinations in use (agent-link.md 7.2 to 7.4).

    Files are written under a temporary name and renamed, and only if their bytes change. Failures are logged, counted
    and retried at the next scan; the old file is kept. All methods block on the disk; calls must not overlap.
    """

    def __init__(self, paths: Paths, *, clock: Clock, counters: Counters) -> None:
        self._paths, self._clock, self._counters = paths, clock, counters
        self._warnings = Warnings()
        self._failures: dict[str, str] = {}
        self._groups: dict[str, _Built] = {}
        self._combinations: dict[str, _Built] = {}
        self._responses: bytes | None = None
        self._contents: dict[str, Mapping[str, bytes]] = {}
        self.received: frozenset[str] = frozenset()
        """Groups whose merged file is downloaded and not built (files.yml)."""

    @property
    def stable(self) -> bool:
        """False: a file changed so shortly before it was read that it must be read again soon."""
        return all(built.stable for built in self._groups.values())

    def scan(self, combinations: Collection[str], touched: Collection[str] | None = None) -> list[str]:
        """Update all merged files; returns the groups and combinations whose file changed.

        ``combinations``: groups of agents in more than one, joined by commas. ``touched``: names of the groups to scan
        besides those that are not stable; None: all. Faults of files are logged and not raised.
        """
        written: list[str] = []
        try:
            names = self._folders()
            if self._read_responses():
                touched = None
        except OSError as error:
            self._failed("etc/shared", error)
            return written
        for name in names:
            known = self._groups.get(name)
            if touched is None or name in touched or known is None or not known.stable:
                self._attempt(name, self._build_group, written)
        self._build_combinations(combinations, written)
        self._contents.clear()
        self._counters.set("groups.present", len(names))
        self._counters.set("groups.combinations", len(self._combinations))
        self._counters.add("groups.merged_files_written", len(written))
        return written

    def _folders(self) -> tuple[str, ...]:
        """The existing groups; ``default`` is created if it is missing."""
        found = list_folders(self._paths)
        for name in found.invalid:
            self._warnings.once(f"etc/shared/{name}", "no group can have this name")
        for name in found.deleted:
            shutil.rmtree(self._paths.shared / name, ignore_errors=True)
        names = found.groups
        if DEFAULT_GROUP not in names:
            try:
                create_group(self._paths, DEFAULT_GROUP)
                names = (DEFAULT_GROUP, *names)
                _log.info("The group %s did not exist and was made", DEFAULT_GROUP)
            except SecmonError as error:
                self._failed(DEFAULT_GROUP, error)
        for name in [name for name in self._groups if name not in names]:
            del self._groups[name]
            self._failures.pop(name, None)
            self._warnings.forget(f"etc/shared/{name}")
        return names

    def _read_responses(self) -> bool:
        """Read the table of active responses; whether it has changed since the last scan."""
        before = self._responses
        try:
            with opened_folder(self._paths.root, "etc/shared") as folder:
                self._responses = read_file(folder, AR_CONF)[0]
        except FileNotFoundError:
            self._responses = None
        return self._responses != before

    def _attempt(self, name: str, build: Callable[[str], bool], written: list[str]) -> None:
        try:
            if build(name):
                written.append(name)
            self._failures.pop(name, None)
        except (FileNotFoundError, NotADirectoryError):
            self._groups.pop(name, None)  # deleted during the scan; the next one finds its new state
        except (OSError, MergedError) as error:
            self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        # Without the path, which is not always the same.
        text = str(error.strerror) if isinstance(error, OSError) else str(error)
        self._counters.add("groups.failures")
        if self._failures.get(name) != text:
            self._failures[name] = text
            _log.error("The merged file of %s could not be built; the old one is kept: %s", name, error)

    def _build_group(self, name: str) -> bool:
        folder = GroupFolder(self._paths.root, f"etc/shared/{name}", self._warnings)
        look = folder.look(int(self._clock.now().timestamp() * 1e9))
        if name in self.received:
            return self._adopt_group(name, look.merged)
        known, sources = self._groups.get(name), (look.fingerprint, self._responses or b"")
        if known is not None and known.stable and (known.sources, known.stamp) == (sources, look.merged):
            return False
        target = self._paths.shared / name
        data = merge(name, [*self._response_file(), *folder.read()])
        changed = self._place(target, data)
        self._groups[name] = _Built(sources, _stamp(target), _digest(data), look.stable)
        return changed

    def _adopt_group(self, name: str, stamp: Stamp | None) -> bool:
        """Register a downloaded merged file; whether it has changed."""
        known = self._groups.get(name)
        if stamp is None:
            self._groups.pop(name, None)  # not downloaded yet
            return False
        if known is None or known.stamp != stamp:
            self._groups[name] = _Built((), stamp, _digest(self._read_merged(f"etc/shared/{name}")))
        return known is None or known.digest != self._groups[name].digest

    def _response_file(self) -> Iterable[MergedFile]:
        return () if self._responses is None else (MergedFile(AR_CONF, self._responses),)

    def _build_combinations(self, combinations: Collection[str], written: list[str]) -> None:
        """Build the combinations in use; the folders of others are deleted."""
        wanted: dict[str, str] = {}
        for joined in sorted(combinations):
            if wanted.setdefault(group_hash(joined), joined) != joined:
                self._warnings.once(joined, f"{wanted[group_hash(joined)]} has the same short name; use another order")
        for joined in wanted.values():
            self._attempt(joined, self._build_combination, written)
        for folder in [folder for folder in self._combinations if folder not in wanted]:
            del self._combinations[folder]
        self._failures = {
            name: text for name, text in self._failures.items() if "," not in name or name in combinations
        }
        try:
            self._delete_unused(wanted)
        except OSError as error:
            self._failed("var/multigroups", error)

    def _build_combination(self, joined: str) -> bool:
        folder = group_hash(joined)
        target = self._paths.multigroups / folder
        parts = [name for name in split_groups(joined) if name in self._groups]
        sources = (self._responses or b"", *(name.encode() + self._groups[name].digest for name in parts))
        known = self._combinations.get(folder)
        if known is not None and known.sources == sources:
            with suppress(FileNotFoundError):
                if known.stamp == _stamp(target):
                    return False
        files = combine([(name, self._content(name)) for name in parts])
        data = merge(folder, [*self._response_file(), *files])
        _make_folder(target)
        changed = self._place(target, data)
        self._combinations[folder] = _Built(sources, _stamp(target), _digest(data))
        return changed

    def _content(self, name: str) -> Mapping[str, bytes]:
        """The files of a group, from its merged file: read once, the same for all combinations."""
        known = self._contents.get(name)
        if known is None:
            known = latest(split(self._read_merged(f"etc/shared/{name}")).files)
            if (
                sum(len(content) for each in (*self._contents.values(), known) for content in each.values())
                < _KEPT_BYTES
            ):
                self._contents[name] = known
        return known

    def _read_merged(self, folder: str) -> bytes:
        with opened_folder(self._paths.root, folder) as descriptor:
            return read_file(descriptor, MERGED, MAX_MERGED)[0]

    def _place(self, folder: Path, data: bytes) -> bool:
        """Write the merged file if its bytes differ; whether it was written."""
        with suppress(OSError):
            if self._read_merged(str(folder.relative_to(self._paths.root))) == data:
                return False
        write_file(folder / MERGED, data, FILE_MODE)
        return True

    def _delete_unused(self, wanted: Mapping[str, str]) -> None:
        with suppress(FileNotFoundError), os.scandir(self._paths.multigroups) as found:
            for each in found:
                if each.name in wanted or not _COMBINATION.fullmatch(each.name):
                    continue
                if each.is_dir(follow_symlinks=False):
                    shutil.rmtree(each.path)
                else:
                    os.unlink(each.path)
                _log.debug("The combination %s is not in use any more", each.name)


def combine(groups: Iterable[tuple[str, Mapping[str, bytes]]]) -> list[MergedFile]:
    """The files of several groups, lowest priority first, in the order of a merged file; ``ar.conf`` is left out.

    A later file replaces an earlier one of the same name, and a folder that is called like it; the texts of
    ``agent.conf`` follow each other (agent-link.md 7.4).
    """
    files: dict[str, bytes] = {}
    folders: set[str] = set()
    shared = b""
    for group, content in groups:
        for name, data in content.items():
            if name == AGENT_CONF:
                shared += b"" if shared.endswith(b"\n") or not shared else b"\n"
                data = shared = shared + b"<!-- Source file: %s/%s -->\n" % (group.encode(), AGENT_CONF.encode()) + data
            if name != AR_CONF:
                _drop_conflicting(files, folders, name)
                files[name] = data
    return [MergedFile(name, files[name]) for name in sorted(files, key=_order)]


def _drop_conflicting(files: dict[str, bytes], folders: set[str], name: str) -> None:
    """Remove what conflicts with ``name``: files with the name of a folder above it, and files below its own name."""
    if name in folders:
        for below in [each for each in files if each.startswith(f"{name}/")]:
            del files[below]
        folders.difference_update([each for each in folders if f"{each}/".startswith(f"{name}/")])
    parent = name.rpartition("/")[0]
    while parent and parent not in folders:
        folders.add(parent)
        files.pop(parent, None)
        parent = parent.rpartition("/")[0]


def _order(name: str) -> tuple[bytes, ...]:
    """Bytewise by name within each folder, sub-folders in their place."""
    return tuple(os.fsencode(part) for part in name.split("/"))


def _make_folder(folder: Path) -> None:
    """Create the folder of a combination; a file or link in its place is replaced."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(FOLDER_MODE)  # whatever the umask is


def _stamp(folder: Path) -> Stamp:
    return Stamp.of(os.stat(folder / MERGED, follow_symlinks=False))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
