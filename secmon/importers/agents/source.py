"""Reads the folder of a 4.x manager: keys, groups and their files, which agents are in which (agent-link.md 0.4, 2)."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from secmon.agents.groups.folders import MERGED
from secmon.agents.names import GROUP_NAME, MAX_GROUPS, parse_id
from secmon.agents.registry.key_lines import KeyLines, parse_keys, parse_times
from secmon.common.errors import SecmonError, os_text
from secmon.common.files.tree import list_folder, open_file, opened_folder
from secmon.common.privileges import as_root
from secmon.common.sqlite.foreign import ForeignError, Row, open_foreign, read_table
from secmon.importers.report import ReportLine, printable

_SHARED = "etc/shared"
MAX_BYTES = 256 << 20
MAX_GROUP_FILE = 64 << 20
"""Bytes of a file that is read, such as that of the keys, and of a file of a group."""


class Source(Struct, frozen=True):
    """What the folder holds.

    ``added``: seconds since 1970 by agent. ``groups``: names by agent, lowest priority first. ``folders``: the files of
    each group by name. ``counter``: the text of the sender's counter. ``lines``: what cannot be imported.
    """

    keys: KeyLines
    added: Mapping[int, int]
    groups: Mapping[int, tuple[str, ...]]
    folders: Mapping[str, Mapping[str, Path]]
    counter: str
    lines: tuple[ReportLine, ...]


def read_source(root: Path) -> Source:
    """Read the folder without writing to it or following links in it: root reads, and another user may write there.

    Raises SecmonError 1006 when it holds no keys or cannot be read.
    """
    keys_file = root / "etc/client.keys"
    try:
        keys = parse_keys(_content(root, "etc/client.keys").decode("utf-8", "surrogateescape"))
        lines = [ReportLine("refused", "agent", f"{keys_file}", printable(fault)) for fault in keys.faults]
        added, groups = _assignments(root, lines)
        folders = _folders(root, lines)
        counter = _text(root, "queue/rids/sender_counter")
    except OSError as error:
        raise SecmonError(1006, os_text(error)) from error
    except (sqlite3.Error, UnicodeError, ForeignError) as error:
        raise SecmonError(1006, f"{root}: {printable(str(error))}") from error
    times = parse_times(_text(root, "queue/agents-timestamp"))
    _check_groups(groups, lines)
    return Source(keys, times | added, groups, folders, counter, tuple(lines))


def _content(root: Path, name: str) -> bytes:
    """The content of a file. Raises OSError, SecmonError 1006 for what is no file of a bearable size."""
    folder, _, last = name.rpartition("/")
    try:
        with opened_folder(root, folder) as descriptor, open(open_file(descriptor, last), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        error.filename = str(root / name)
        raise
    except OSError as error:
        raise SecmonError(1006, f"{root / name}: not a file, or behind a link ({os_text(error)})") from error
    if len(data) > MAX_BYTES:
        raise SecmonError(1006, f"{root / name}: too large")
    return data


def _text(root: Path, name: str) -> str:
    try:
        return _content(root, name).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _assignments(root: Path, lines: list[ReportLine]) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    """Times of registration and groups: from the database of 4.x, otherwise from the files of its first releases."""
    database, folder = root / "queue/db/global.db", "queue/agent-groups"
    if database.exists():
        return _from_database(database)
    if (root / folder).is_dir():
        return {}, _from_files(root, folder)
    lines.append(
        ReportLine("warning", "groups", str(database), "there is none: agents get their groups when they connect")
    )
    return {}, {}


def _from_database(path: Path) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    with open_foreign(path) as connection:
        agents, links, groups = (read_table(connection, (name,)) for name in ("agent", "belongs", "group"))
    if missing := [name for name in ("id", "date_add", "group") if agents and name not in agents[0]]:
        raise ForeignError(f"table agent has no column {missing[0]}")
    names = {row.get("id"): row.get("name") for row in groups}
    held = sorted(one for one in (_link(row, names) for row in links) if one is not None)
    found: dict[int, list[str]] = defaultdict(list)
    for agent, _, name in held:
        found[agent].append(name)
    known = [row for row in agents if isinstance(row["id"], int) and row["id"] > 0]
    for row in known:
        if row["id"] not in found and isinstance(row["group"], str) and row["group"]:
            found[row["id"]] = row["group"].split(",")
    added = {row["id"]: row["date_add"] for row in known if isinstance(row["date_add"], int)}
    return added, {agent: tuple(dict.fromkeys(joined)) for agent, joined in found.items()}


def _link(row: Row, names: Mapping[Any, Any]) -> tuple[int, int, str] | None:
    """Agent, priority and name of a group; None for an invalid row."""
    agent, priority, name = row.get("id_agent"), row.get("priority"), names.get(row.get("id_group"))
    if not isinstance(agent, int) or agent <= 0 or not isinstance(name, str):
        return None
    return agent, priority if isinstance(priority, int) else 0, name


def _from_files(root: Path, folder: str) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for entry in list_folder(root, folder):
        agent = parse_id(entry.name)
        if agent and entry.is_file:
            names = _text(root, f"{folder}/{entry.name}").strip().split(",")
            found[agent] = tuple(dict.fromkeys(name for name in names if name))
    return {agent: names for agent, names in found.items() if names}


def _check_groups(groups: Mapping[int, tuple[str, ...]], lines: list[ReportLine]) -> None:
    for agent, names in groups.items():
        wrong = [name for name in names if not GROUP_NAME.fullmatch(name)]
        if wrong:
            lines.append(
                ReportLine("refused", "groups", f"{agent:03d}", f"no group can be called {printable(wrong[0])}")
            )
        if len(names) > MAX_GROUPS:
            lines.append(ReportLine("refused", "groups", f"{agent:03d}", f"more than {MAX_GROUPS} groups"))


def _folders(root: Path, lines: list[ReportLine]) -> dict[str, dict[str, Path]]:
    found: dict[str, dict[str, Path]] = {}
    for entry in list_folder(root, _SHARED) if (root / _SHARED).is_dir() else ():
        if not entry.is_folder:
            continue
        if not GROUP_NAME.fullmatch(entry.name):
            lines.append(ReportLine("dropped", "group", printable(entry.name), "no group can be called so"))
            continue
        files = found[entry.name] = {}
        for file in list_folder(root, f"{_SHARED}/{entry.name}"):
            name = f"{entry.name}/{printable(file.name)}"
            if not file.is_file:
                lines.append(ReportLine("dropped", "file", name, "not a file"))
            elif file.name != MERGED:  # this installation makes its own
                files[file.name] = root / _SHARED / entry.name / file.name
    return found


def read_group_file(path: Path) -> bytes:
    """The content of one of the files in ``folders``. Raises OSError, also when a link leads to it, SecmonError 1006.

    It is read as root: the user of the other manager, who may write to the folders, could have made the link meanwhile.
    """
    root = path.parents[3]
    with as_root(), opened_folder(root, path.parent.relative_to(root).as_posix()) as folder:
        descriptor = open_file(folder, path.name)
        with open(descriptor, "rb") as file:
            data = file.read(MAX_GROUP_FILE + 1)
    if len(data) > MAX_GROUP_FILE:
        raise SecmonError(1006, f"{path}: more than {MAX_GROUP_FILE >> 20} MiB")
    return data
