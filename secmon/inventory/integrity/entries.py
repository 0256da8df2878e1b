"""Rows of files and of entries of the registry (docs/reference/agent-data.md 3.4)."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from secmon.inventory.message import MalformedMessage
from secmon.inventory.values import integer, is_number, text

EntryType = Literal["file", "registry_key", "registry_value"]

TYPES: Mapping[str, EntryType] = {
    "file": "file",
    "registry": "registry_key",  # of old agents
    "registry_key": "registry_key",
    "registry_value": "registry_value",
}
"""The types of entries as they are stored, by their names in messages."""

_TEXTS = tuple(
    {
        "uid": "uid",
        "gid": "gid",
        "uname": "user_name",
        "gname": "group_name",
        "md5": "hash_md5",
        "sha1": "hash_sha1",
        "sha256": "hash_sha256",
        "attributes": "attributes",
        "symbolic_path": "symbolic_path",
        "value_type": "value_type",
        "checksum": "checksum",
    }.items()
)
"""Members of ``attributes`` by columns."""
INDEX_VERSION = 3
"""From this version on, entries of the registry are named by their hash (``index``)."""


def entry_row(agent: int, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of ``fim_entries`` from the ``data`` of a state or of an event that has added or modified an entry.

    None for entries of the registry without a version, which are ignored. Members that are missing become null; unknown
    ones are ignored. Raises MalformedMessage.
    """
    attributes = data.get("attributes")
    if not isinstance(attributes, dict):
        raise MalformedMessage("attributes are missing")
    kind = text(attributes.get("type")) or ""
    if kind not in TYPES:
        raise MalformedMessage("the type of the entry is not known")
    timestamp = data.get("timestamp")
    if not is_number(timestamp):
        raise MalformedMessage("timestamp is not a number")
    file = _first_text(data, "path", "index")
    full_path = _full_path(data, kind, file)
    if full_path is None:
        return None
    row: dict[str, Any] = {
        column: (value if type(value := attributes.get(member)) is str else text(value)) or None
        for column, member in _TEXTS
    }
    row |= {
        "agent_id": agent,
        "type": TYPES[kind],
        "full_path": full_path,
        "file": file,
        "date": integer(timestamp),
        "changes": 1,
        "arch": text(data.get("arch")),
        "value_name": text(data.get("value_name")),
        "perm": _permissions(attributes.get("perm")),
        "size": integer(attributes.get("size")),
        "mtime": integer(attributes.get("mtime")),
        "inode": _inode(attributes.get("inode")),
    }
    return row


def entry_key(data: Mapping[str, Any], kind: str) -> str:
    """``full_path`` of the entry of type ``kind`` that an event has deleted: of a file its path, else its ``index``.

    Raises MalformedMessage.
    """
    return _first_text(data, "path" if kind == "file" else "index")


def _full_path(data: Mapping[str, Any], kind: str, file: str) -> str | None:
    """The name of the row; None for an entry that is ignored."""
    if not kind.startswith("registry_"):
        return file
    version = data.get("version")
    if not is_number(version):
        return None
    if version >= INDEX_VERSION:
        return _first_text(data, "index")
    path = f"{_first_text(data, 'arch')} {_escaped(file)}"
    return path if kind == "registry_key" else f"{path}:{_escaped(_first_text(data, 'value_name'))}"


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:")


def _first_text(data: Mapping[str, Any], *members: str) -> str:
    """The first of ``members`` that is a text. Raises MalformedMessage."""
    for member in members:
        value = data.get(member)
        if isinstance(value, str):
            return value
    raise MalformedMessage(f"{' and '.join(members)} is missing")


def _permissions(value: object) -> str | None:
    """A text, or the permissions of Windows by account as compact JSON."""
    if not isinstance(value, dict):
        return text(value)
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, OverflowError) as error:
        raise MalformedMessage(f"perm cannot be stored: {error}") from None


def _inode(value: object) -> int | None:
    """A number, or its text since 4.13; a text that is no number counts as 0 (newer-versions.md 3.5)."""
    return 0 if isinstance(value, str) and integer(value) is None else integer(value)
