"""The files of a ruleset: what the main configuration names, in load order (ruleset.md 1.2, 1.3)."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from errno import EINVAL, ENOENT
from pathlib import Path
from typing import TYPE_CHECKING

from secmon.common.errors import SecmonError, os_text
from secmon.common.paths import Paths
from secmon.config.main import MainConfig, load_main_config
from secmon.config.options import InternalOptions, load_internal_options
from secmon.config.xml import read_xml
from secmon.engine.decoders.decoder_loader import LOCAL_FILE
from secmon.engine.ruleset.compiled import File, Ruleset, RulesetSettings, compile_ruleset
from secmon.engine.ruleset.diagnostics import Message, RulesetError
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.engine.ruleset.ruleset_section import Part, RulesetSection, read_section
from secmon.knowledge.lists.list_text import COMPILED_SUFFIX, EXPIRY_SUFFIX

if TYPE_CHECKING:
    from secmon.cluster.node import Changed

LISTS = "etc/lists"
SHIPPED_LISTS = "ruleset/lists"


NO_CHANGE: "Changed" = {}


@dataclass(slots=True)
class Sources:
    """Files as read, in load order; lists by the path that rules name, their expiry files beside them."""

    decoders: list[File] = field(default_factory=list)
    lists: dict[str, bytes] = field(default_factory=dict)
    rules: list[File] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """Warnings: files that cannot be read are left out."""


def collect(root: Path, section: RulesetSection, changed: "Changed" = NO_CHANGE) -> Sources:
    """Read the files that ``section`` names below ``root``, as if they were ``changed``.

    Raises RulesetError 1226 for an empty decoder file.
    """
    sources = Sources()
    messages = sources.messages
    for part, into in ((section.decoders, sources.decoders), (section.rules, sources.rules)):
        paths = _load_order(_members(root, part, changed, messages))
        read = ((path, _read(root, path, changed, messages, named=path in part.includes)) for path in paths)
        into += [(path, data) for path, data in read if data is not None]
    own = _shipped_lists(root, changed)
    named = dict.fromkeys((*section.lists, *own))
    dates = [path + EXPIRY_SUFFIX for path in named if _exists(root, path + EXPIRY_SUFFIX, changed)]
    lists = ((path, _read(root, path, changed, messages, named=path in section.lists)) for path in (*named, *dates))
    sources.lists = {path: data for path, data in lists if data is not None}
    for path, data in sources.decoders:
        if not data and path != LOCAL_FILE:
            raise RulesetError(1226, "the file is empty", file=path)
    return sources


def _shipped_lists(root: Path, changed: "Changed") -> list[str]:
    """Lists of the shipped rules, which the configuration of another manager does not name."""
    folder = root / SHIPPED_LISTS
    names = sorted(each.name for each in folder.iterdir() if each.is_file()) if folder.is_dir() else []
    paths = [f"{LISTS}/{name}" for name in names if not name.endswith(COMPILED_SUFFIX)]
    return [path for path in paths if _exists(root, path, changed)]


def _exists(root: Path, path: str, changed: "Changed") -> bool:
    return changed[path] is not None if path in changed else (root / path).is_file()


def _members(root: Path, part: Part, changed: "Changed", messages: list[Message]) -> list[str]:
    found = list(part.includes)
    for folder in part.folders:
        try:
            names = {each.name for each in (root / folder.path).iterdir() if each.is_file()}
        except OSError as error:
            messages.append(Message("WARNING", 1103, f"the folder cannot be read: {os_text(error)}", folder.path))
            continue
        for path, data in changed.items():
            where, _, name = path.rpartition("/")
            if where == folder.path:
                names = names - {name} if data is None else names | {name}
        paths = ((name, f"{folder.path}/{name}") for name in sorted(names))
        found += [
            path for name, path in paths if folder.pattern.test(path.encode()) and not part.excludes & {name, path}
        ]
    return list(dict.fromkeys(found))


def _load_order(paths: Iterable[str]) -> list[str]:
    """By base name, byte by byte; folders do not count."""
    return sorted(paths, key=lambda path: path.rpartition("/")[2].encode())


def _read(root: Path, path: str, changed: "Changed", messages: list[Message], *, named: bool) -> bytes | None:
    """The file, or None. One that the configuration does not name may be removed after its folder was listed."""
    try:
        data = changed[path] if path in changed else (root / path).read_bytes()
        if data is None:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(root / path))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not named:
            return None
        messages.append(Message("WARNING", 1103, f"the file cannot be read: {os_text(error)}", path))
        return None
    return data


def compile_sources(
    sources: Sources, settings: RulesetSettings | None = None, *, cache: LoadCache | None = None
) -> Ruleset:
    """The ruleset of ``sources``, with the warnings of both steps. ``cache``: of earlier loads. Raises RulesetError."""
    made = compile_ruleset(sources.decoders, sources.lists, sources.rules, settings, cache=cache)
    return replace(made, messages=(*sources.messages, *made.messages))


def compile_installation(paths: Paths) -> Ruleset:
    """The ruleset of this installation. Raises ConfigError, RulesetError."""
    section = read_section(read_xml(paths.main_config), str(paths.main_config))
    return compile_sources(collect(paths.root, section), settings_of(paths))


def settings_of(paths: Paths, config: MainConfig | None = None) -> RulesetSettings:
    """Levels and limits of the installation, or of another ``config`` for it. Raises ConfigError."""
    config, usual = config or load_main_config(paths), RulesetSettings()
    options = load_internal_options(paths)
    return RulesetSettings(
        alert_level=config.integer("alerts", "log_alert_level", default=usual.alert_level),
        mail_level=config.integer("alerts", "email_alert_level", default=usual.mail_level),
        default_timeframe=_option(options, "analysisd.default_timeframe", usual.default_timeframe),
        field_limit=_option(options, "analysisd.decoder_order_size", usual.field_limit),
    )


def _option(options: InternalOptions, name: str, usual: int) -> int:
    try:
        return options.get(name)
    except SecmonError:  # 1108: the files do not name it
        return usual


def collect_folder(folder: Path) -> Sources:
    """A ruleset of ``folder`` itself: its ``decoders/*.xml``, ``rules/*.xml`` and ``lists/**``.

    The files are named as if the folder was ``ruleset`` of an installation, lists as copied to ``etc/lists``. Raises
    OSError for a folder without rules, and RulesetError.
    """
    sources = Sources()
    for name, into in (("decoders", sources.decoders), ("rules", sources.rules)):
        for file in sorted((folder / name).iterdir(), key=lambda file: file.name.encode()):
            if file.suffix == ".xml":
                if not stat.S_ISREG(file.stat().st_mode):  # opening a pipe would block
                    raise OSError(EINVAL, "neither a regular file nor a link to one", str(file))
                into.append((f"ruleset/{name}/{file.name}", file.read_bytes()))
    lists = folder / "lists"
    for file in sorted(lists.rglob("*")):
        below = file.relative_to(lists)
        if file.is_file() and file.suffix != COMPILED_SUFFIX and not any(part.startswith(".") for part in below.parts):
            sources.lists[f"{LISTS}/{below.as_posix()}"] = file.read_bytes()
    return sources
