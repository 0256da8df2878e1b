"""The files of a ruleset in the folders of an installation: ``cluster.node.RulesetFiles``."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from secmon.cluster.node import Definitions, RulesetFile, RulesetKind, XmlKind
from secmon.common.errors import SecmonError, os_text, write_error
from secmon.common.file_io import sync_folder, write_file
from secmon.common.paths import Paths
from secmon.common.readings import NextReading
from secmon.engine.catalogue.configured_files import ConfiguredFiles, listed_files, read_configured
from secmon.engine.catalogue.decoder_items import decoder_items
from secmon.engine.catalogue.file_cache import FileCache, Stamp, stamp_of
from secmon.engine.catalogue.file_kinds import KINDS, unreadable
from secmon.engine.catalogue.list_entries import check_entries, find_lists, read_entries
from secmon.engine.catalogue.rule_items import rule_items
from secmon.engine.catalogue.strict_xml import MalformedXml, check, read_object
from secmon.engine.ruleset.ruleset_xml import XmlError, parse
from secmon.knowledge.lists.list_text import COMPILED_SUFFIX, EXPIRY_SUFFIX

FILE_MODE = 0o660

Items = list[dict[str, Any]]
State = tuple[tuple[RulesetFile, Stamp | None], ...]


class RulesetCatalogue:
    """See ``cluster.node.RulesetFiles``. Items of unchanged files are cached."""

    def __init__(self, paths: Paths) -> None:
        """Reads nothing yet."""
        self._paths = paths
        self._root = paths.root
        self._configured: FileCache[ConfiguredFiles] = FileCache()
        self._items: dict[XmlKind, FileCache[Items]] = {"rule": FileCache(), "decoder": FileCache()}
        self._states: dict[XmlKind, NextReading[State]] = {
            kind: NextReading(partial(asyncio.to_thread, self._state, kind)) for kind in self._items
        }
        self._known: dict[XmlKind, State] = {}
        self._changing = threading.Lock()
        self.changes = asyncio.Lock()

    # -- reading

    def names(self, kind: RulesetKind) -> Set[str]:
        folders = KINDS[kind].shipped, KINDS[kind].own
        every = {name for folder in folders for _, _, names in os.walk(self._root / folder) for name in names}
        if kind == "list":
            return {name for name in every if "." not in name}
        return {name for name in every if name.endswith(".xml")}

    async def version(self, kind: XmlKind) -> Hashable:
        return await self._states[kind].value()

    def _state(self, kind: XmlKind) -> State:
        """The listed files, each with its stamp; None for one that has vanished meanwhile. The same object if equal."""
        state = tuple((file, _stamp(f"{self._root}/{file.path}")) for file in self.listed(kind))
        if state != self._known.get(kind):
            self._known[kind] = state
        return self._known[kind]

    def listed(self, kind: XmlKind) -> Sequence[RulesetFile]:
        return listed_files(self._root, self._section().part(kind))

    def definitions(self, kind: XmlKind, chosen: Callable[[RulesetFile], bool]) -> Definitions:
        items: Items = []
        failures: list[SecmonError] = []
        listed = self.listed(kind)
        self._items[kind].retain({(file.path, file.status) for file in listed})
        for file in filter(chosen, listed):
            try:
                items += self._items_of(kind, file)
            except XmlError as error:
                failures.append(SecmonError(KINDS[kind].malformed, f"{file.path}: {error}", ids=(file.path,)))
            except OSError as error:
                raise unreadable(kind, file.path, error, listing=True) from None
        return Definitions(items, failures)

    def _items_of(self, kind: XmlKind, file: RulesetFile) -> Items:
        path = self._root / file.path
        make = rule_items if kind == "rule" else decoder_items
        return self._items[kind].get((file.path, file.status), path, lambda: make(file, path.read_bytes()))

    def _section(self) -> ConfiguredFiles:
        """Raises ConfigError 1101."""
        file = self._paths.main_config
        try:
            return self._configured.get("", file, lambda: read_configured(self._paths))
        except OSError as error:
            raise SecmonError(1101, os_text(error)) from None

    def lists(self) -> Sequence[tuple[str, str]]:
        return sorted(find_lists(self._root, KINDS["list"].own))

    def find(self, kind: RulesetKind, filename: str, folder: str | None = None) -> str:
        if kind == "list":
            found = [f"{where}/{name}" for where, name in find_lists(self._root, KINDS[kind].own) if name == filename]
        else:
            wanted = folder.rstrip("/") if folder is not None else None
            named = [file for file in self.listed(kind) if file.filename == filename]
            found = sorted(
                (file.path for file in named if wanted in (None, file.relative_dirname)),
                key=lambda path: (len(path), path),
            )
        if not found:
            raise SecmonError(KINDS[kind].absent, ids=(filename,))
        return found[0]

    def read(self, kind: RulesetKind, path: str) -> bytes:
        try:
            return (self._root / path).read_bytes()
        except OSError as error:
            raise unreadable(kind, path, error) from None

    def as_object(self, kind: RulesetKind, data: bytes) -> Mapping[str, Any]:
        if kind == "list":
            return read_entries(data)
        try:
            return read_object(data)
        except MalformedXml as error:
            raise SecmonError(KINDS[kind].malformed, str(error)) from None

    # -- changing

    def target(self, kind: RulesetKind, filename: str, folder: str | None = None) -> str:
        codes = KINDS[kind]
        chosen = codes.own if folder is None else folder.rstrip("/")
        path = f"{chosen}/{filename}"
        if kind == "list":
            return path
        if chosen not in {each.path for each in self._section().part(kind).folders}:
            raise SecmonError(codes.not_configured, chosen, ids=(path,))
        if f"{chosen}/".startswith(f"{codes.shipped}/"):
            raise SecmonError(codes.is_shipped, chosen, ids=(path,))
        if not (self._root / chosen).is_dir():
            raise SecmonError(codes.no_folder, chosen, ids=(path,))
        return path

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._root / path)

    def check(self, kind: RulesetKind, data: bytes) -> None:
        if not data.strip():
            raise SecmonError(1112)
        if kind == "list":
            return check_entries(data)
        try:
            check(data)
            parse(data)
        except (MalformedXml, XmlError) as error:
            raise SecmonError(1113, str(error)) from None
        return None

    def write(self, kind: RulesetKind, path: str, data: bytes, *, overwrite: bool) -> None:
        with self._changing:
            if self.exists(path) and not overwrite:
                raise SecmonError(1905, path, ids=(path,))
            if kind == "list":
                self._only_here(path)
            try:
                write_file(self._root / path, data, FILE_MODE)
            except OSError as error:
                code = 1006 if isinstance(error, PermissionError) or error.errno == errno.ENAMETOOLONG else 1005
                raise write_error(code, error, path, ids=(path,)) from error

    def _only_here(self, path: str) -> None:
        """Raises 1805 when another folder has a list of this name: the two would be ambiguous for rules."""
        folder, _, filename = path.rpartition("/")
        for where, name in find_lists(self._root, KINDS["list"].own):
            if name == filename and where != folder:
                raise SecmonError(1805, where, ids=(path,))

    def delete(self, kind: RulesetKind, path: str) -> None:
        file = self._root / path
        with self._changing:
            try:
                file.unlink()
                if kind == "list":  # what was compiled by another manager, and dates
                    for suffix in (COMPILED_SUFFIX, EXPIRY_SUFFIX):
                        file.with_name(file.name + suffix).unlink(missing_ok=True)
                sync_folder(file.parent)
            except FileNotFoundError:
                raise SecmonError(1906, ids=(path,)) from None
            except OSError as error:
                raise SecmonError(1907, f"{path}: {error.strerror}", ids=(path,)) from None


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(path)
    except OSError:
        return None
