"""Reads the folder of a 4.x manager: keys, groups and their files, which agents are in which (agent-link.md 0.4, 2)."""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from secmon.common.agents.groups import MERGED
from secmon.common.agents.keylines import KeyLines, parse_keys, parse_times
from secmon.common.agents.migration.report import Line, shown
from secmon.common.agents.names import GROUP_NAME, MAX_GROUPS, parse_id
from secmon.common.errors import SecmonError, os_text

MAX_KEYS = 256 << 20
"""Bytes of a key file that are read."""


class Source(Struct, frozen=True):
    """What the folder holds.

    ``added``: seconds since 1970 by agent. ``groups``: names by agent, lowest priority first. ``folders``: the files of
    each group by name. ``counter``: the text of the sender's counter. ``lines``: what cannot be taken over.
    """

    keys: KeyLines
    added: Mapping[int, int]
    groups: Mapping[int, tuple[str, ...]]
    folders: Mapping[str, Mapping[str, Path]]
    counter: str
    lines: tuple[Line, ...]


def read_source(root: Path) -> Source:
    """Read the folder without writing to it. Raises SecmonError 1006 when it holds no keys or cannot be read."""
    keys_file = root / "etc/client.keys"
    try:
        if keys_file.stat().st_size > MAX_KEYS:
            raise SecmonError(1006, f"{keys_file}: too large")
        keys = parse_keys(keys_file.read_text("utf-8", "surrogateescape"))
        lines = [Line("refused", "agent", f"{keys_file}", shown(fault)) for fault in keys.faults]
        added, groups = _assignments(root, lines)
        folders = _folders(root / "etc/shared", lines)
        counter = _text(root / "queue/rids/sender_counter")
    except OSError as error:
        raise SecmonError(1006, os_text(error)) from error
    except (sqlite3.Error, UnicodeError) as error:
        raise SecmonError(1006, f"{root}: {shown(str(error))}") from error
    times = parse_times(_text(root / "queue/agents-timestamp"))
    _check_groups(groups, lines)
    return Source(keys, times | added, groups, folders, counter, tuple(lines))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _assignments(root: Path, lines: list[Line]) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    """Times of registration and groups: from the data base of 4.x, else from the files of its first releases."""
    database, folder = root / "queue/db/global.db", root / "queue/agent-groups"
    if database.exists():
        return _from_database(database)
    if folder.is_dir():
        return {}, _from_files(folder)
    lines.append(Line("warning", "groups", str(database), "there is none: agents get their groups when they connect"))
    return {}, {}


def _from_database(path: Path) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        rows = connection.execute('SELECT id, date_add, "group" FROM agent WHERE id > 0').fetchall()
        links = connection.execute(
            'SELECT id_agent, name FROM belongs JOIN "group" ON id = id_group ORDER BY id_agent, priority, name'
        ).fetchall()
    added = {agent: moment for agent, moment, _ in rows if isinstance(agent, int) and isinstance(moment, int)}
    found: dict[int, list[str]] = defaultdict(list)
    for agent, name in links:
        if isinstance(agent, int) and agent > 0 and isinstance(name, str):
            found[agent].append(name)
    for agent, _, joined in rows:
        if agent not in found and isinstance(joined, str) and joined:
            found[agent] = joined.split(",")
    return added, {agent: tuple(dict.fromkeys(names)) for agent, names in found.items()}


def _from_files(folder: Path) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        agent = parse_id(entry.name)
        if agent and entry.is_file(follow_symlinks=False):
            names = Path(entry.path).read_text("utf-8", "replace").strip().split(",")
            found[agent] = tuple(dict.fromkeys(name for name in names if name))
    return {agent: names for agent, names in found.items() if names}


def _check_groups(groups: Mapping[int, tuple[str, ...]], lines: list[Line]) -> None:
    for agent, names in groups.items():
        wrong = [name for name in names if not GROUP_NAME.fullmatch(name)]
        if wrong:
            lines.append(Line("refused", "groups", f"{agent:03d}", f"no group can be called {shown(wrong[0])}"))
        if len(names) > MAX_GROUPS:
            lines.append(Line("refused", "groups", f"{agent:03d}", f"more than {MAX_GROUPS} groups"))


def _folders(shared: Path, lines: list[Line]) -> dict[str, dict[str, Path]]:
    found: dict[str, dict[str, Path]] = {}
    for entry in sorted(os.scandir(shared), key=lambda one: one.name) if shared.is_dir() else ():
        if not entry.is_dir(follow_symlinks=False):
            continue
        if not GROUP_NAME.fullmatch(entry.name):
            lines.append(Line("dropped", "group", shown(entry.name), "no group can be called so"))
            continue
        files = found[entry.name] = {}
        for file in sorted(os.scandir(entry.path), key=lambda one: one.name):
            name = f"{entry.name}/{shown(file.name)}"
            if not file.is_file(follow_symlinks=False):
                lines.append(Line("dropped", "file", name, "not a file"))
            elif file.name != MERGED:  # made anew here
                files[file.name] = Path(file.path)
    return found
