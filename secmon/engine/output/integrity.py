"""The ``syscheck`` object of an alert about a changed file or entry of the registry (agent-data.md 3.5)."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.event import Event, printable

_DECODERS = frozenset(name for name in INTERNAL if name.startswith("syscheck_"))
"""Names of the decoders of these events."""

_BEFORE = "_before"
_ACCESS = re.compile(r"(?P<name>.*) \((?P<access>allowed|denied)\): (?P<rights>[^ ]*)", re.DOTALL)
_MAX_DIGITS = 20
_AUDIT: Mapping[str, Mapping[str, str]] = {
    "user": {"id": "user_id", "name": "user_name"},
    "process": {
        "id": "process_id",
        "name": "process_name",
        "cwd": "cwd",
        "parent_name": "parent_name",
        "parent_cwd": "parent_cwd",
        "ppid": "ppid",
    },
    "group": {"id": "group_id", "name": "group_name"},
    "login_user": {"id": "audit_uid", "name": "audit_name"},
    "effective_user": {"id": "effective_uid", "name": "effective_name"},
}
"""Fields of the event by object and member."""

_LINES = {
    "size": "Size",
    "perm": "Permissions",
    "mtime": "Date",
    "inode": "Inode",
    "uid": "User id",
    "uname": "User",
    "gid": "Group id",
    "gname": "Group",
    "md5": "MD5",
    "sha1": "SHA-1",
    "sha256": "SHA-256",
    "win_attributes": "File attributes",
    "value_type": "Type of the value",
}
"""The attributes in a text, by fields."""
_AUDIT_LINES = {
    "user_name": "User",
    "audit_name": "Login user",
    "effective_name": "Effective user",
    "group_name": "Group",
    "process_name": "Process",
    "process_id": "Process id",
    "cwd": "Folder",
    "parent_name": "Parent process",
}
"""Who made the change, by fields."""

Fields = Mapping[str, str]


def is_integrity(event: Event) -> bool:
    """Whether the event is about a file or an entry of the registry."""
    return event.decoder is not None and event.decoder.name in _DECODERS


def integrity_lines(event: Event) -> list[bytes]:
    """The attributes of the entry, who changed it, and the difference of its content, for alerts as text."""
    names = event.names
    lines: list[bytes] = []
    for title, labels in (("Attributes:", _LINES), ("Changed by:", _AUDIT_LINES)):
        found = [f" - {label}: {_line(name, names[name])}" for name, label in labels.items() if names.get(name)]
        lines += (line.encode("utf-8", "surrogateescape") for line in ([title, *found] if found else ()))
    if difference := names.get("changed_content"):
        lines += (b"Difference:", difference)
    return lines


def _line(name: str, value: bytes) -> str:
    text = value.decode("utf-8", "surrogateescape").replace("\n", " ")
    return _local_time(text) if name == "mtime" else text


def integrity_object(event: Event) -> dict[str, Any]:
    """The object for an event about a file or an entry of the registry. Empty values are left out."""
    fields = {name: printable(value) for name, value in event.names.items() if value}
    return dict(_members(fields))


def _members(fields: Fields) -> Iterator[tuple[str, Any]]:
    if "file" in fields:
        yield "path", fields["file"]
    if "hard_links" in fields:
        yield "hard_links", _array(fields["hard_links"])
    for name in ("mode", "symbolic_path", "arch", "value_name", "value_type"):
        if name in fields:
            yield name, fields[name]
    yield from _pairs(fields)
    if "changed_content" in fields:
        yield "diff", fields["changed_content"]
    if "tag" in fields:
        yield "tags", fields["tag"].split(",")
    if "changed_fields" in fields:
        yield "changed_attributes", fields["changed_fields"].split(",")
    if "event_type" in fields:
        yield "event", fields["event_type"]
    if audit := {name: found for name, members in _AUDIT.items() if (found := _present(fields, members))}:
        yield "audit", audit


def _pairs(fields: Fields) -> Iterator[tuple[str, Any]]:
    """``_before``, where it differs, and ``_after`` of each attribute."""
    for name, (shown, converted) in _ATTRIBUTES.items():
        after, before = fields.get(name), fields.get(name + _BEFORE)
        if before is not None and before != after:
            yield from _value(shown, "before", before, converted)
        if after is not None:
            yield from _value(shown, "after", after, converted)


def _value(name: str, when: str, value: str, converted: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    accounts = _accounts(value) if name == "perm" else []
    if accounts:
        yield f"win_perm_{when}", accounts
    else:
        yield f"{name}_{when}", converted(value)


def _present(fields: Fields, members: Mapping[str, str]) -> dict[str, str]:
    return {member: fields[name] for member, name in members.items() if name in fields}


def _array(text: str) -> Any:
    """The array in a JSON text; the text itself if there is none."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return text


def _accounts(text: str) -> list[dict[str, Any]]:
    """The permissions of each account, from ``<name> (allowed): RIGHT|RIGHT, <name> (denied): RIGHT``.

    Empty for permissions of another kind. A comma in a name belongs to the name.
    """
    found: dict[str, dict[str, Any]] = {}
    waiting: list[str] = []
    for part in text.split(", "):
        one = _ACCESS.fullmatch(part)
        waiting.append(part if one is None else one["name"])
        if one is not None:
            name = ", ".join(waiting)
            waiting.clear()
            account = found.setdefault(name, {"name": name})
            account[one["access"]] = one["rights"].split("|") if one["rights"] else []
    return list(found.values())


def _local_time(seconds: str) -> str:
    """``YYYY-MM-DDTHH:MM:SS`` in local time; what is no time stays as it is."""
    try:
        return datetime.fromtimestamp(int(seconds)).isoformat() if len(seconds) <= _MAX_DIGITS else seconds
    except (ValueError, OverflowError, OSError):
        return seconds


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else text


def _list(text: str) -> list[str]:
    return text.split(", ")


_ATTRIBUTES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    **{name: (name, str) for name in ("size", "perm", "uid", "gid", "md5", "sha1", "sha256")},
    "win_attributes": ("attrs", _list),
    **{name: (name, str) for name in ("uname", "gname")},
    "mtime": ("mtime", _local_time),
    "inode": ("inode", _number),
}
"""Names in the object, and conversions, by fields; in the order of the object."""
