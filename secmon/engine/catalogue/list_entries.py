"""CDB lists in the syntax of the API (analysis-api.md 4.1, 5.4), which is narrower than that of the engine."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from secmon.common.errors import SecmonError
from secmon.knowledge.lists.feeds_yml import FEEDS_YML
from secmon.knowledge.lists.list_text import COMPILED_SUFFIX, EXPIRY_SUFFIX

_TEMPLATE = "TEMPLATE"
"""Lines that contain it are skipped."""
_QUOTED = re.compile(r'"([^"]+)":"([^"]*)"|"([^"]+)":([^"]*)|([^":]+):"([^"]*)"')
_ACCEPTED = re.compile(r'(?:"[\w\-:]+"|[^:"\s]+):(?:"[\w\-:]*"|[^:"]*)')


def read_entries(data: bytes) -> dict[str, str]:
    """Keys and values in the order of the lines; the last value of a repeated key. Raises 1800."""
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    blank = [not line.strip() for line in lines]
    if all(blank):
        raise SecmonError(1800, "there is no entry")
    first, last = blank.index(False), len(lines) - blank[::-1].index(False)
    numbered = enumerate(lines[first:last], first + 1)
    return dict(_entry(number, line.removesuffix("\r")) for number, line in numbered if _TEMPLATE not in line)


def _entry(number: int, line: str) -> tuple[str, str]:
    if '"' not in line and line.count(":") == 1:
        key, _, value = line.partition(":")
        return key, value
    found = _QUOTED.fullmatch(line)
    if found is None:
        raise SecmonError(1800, f"line {number}")
    key, value = (part for part in found.groups() if part is not None)
    return key, value


def check_entries(data: bytes) -> None:
    """Check an upload. Raises 1112 when it is empty, 1800 for an invalid line."""
    text = data.decode()
    if not text.strip():
        raise SecmonError(1112)
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if not _ACCEPTED.fullmatch(line.removesuffix("\r")):
            raise SecmonError(1800, f"line {number}")


def find_lists(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    """Folder, relative to ``root``, and name of each list in ``folder`` and below; those of upper folders first."""
    for where, folders, files in os.walk(root / folder):
        folders.sort()
        relative = Path(where).relative_to(root).as_posix()
        yield from ((relative, name) for name in sorted(files) if _is_list(name))


def _is_list(name: str) -> bool:
    """Whether it is not a compiled list, what belongs to renewals, or a backup file of an editor."""
    beside = COMPILED_SUFFIX in name or name.endswith(EXPIRY_SUFFIX) or name == FEEDS_YML
    return not (beside or "~" in name or (name.startswith(".") and name.endswith((".swp", ".tmp"))))
