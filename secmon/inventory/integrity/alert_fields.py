"""What rules see of a change of a file or of an entry of the registry (docs/reference/agent-data.md 3.5)."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from secmon.inventory.integrity.entries import EntryType
from secmon.inventory.integrity.integrity_event import IntegrityEvent
from secmon.inventory.values import integer, is_number

Members = Mapping[str, Any]

_DECODERS: Mapping[tuple[EntryType, str], str] = {
    ("file", "added"): "syscheck_new_entry",
    ("file", "modified"): "syscheck_integrity_changed",
    ("file", "deleted"): "syscheck_deleted",
    ("registry_key", "added"): "syscheck_registry_key_added",
    ("registry_key", "modified"): "syscheck_registry_key_modified",
    ("registry_key", "deleted"): "syscheck_registry_key_deleted",
    ("registry_value", "added"): "syscheck_registry_value_added",
    ("registry_value", "modified"): "syscheck_registry_value_modified",
    ("registry_value", "deleted"): "syscheck_registry_value_deleted",
}

_PAIRS = {
    "size": "size",
    "perm": "perm",
    "uid": "uid",
    "gid": "gid",
    "md5": "hash_md5",
    "sha1": "hash_sha1",
    "uname": "user_name",
    "gname": "group_name",
    "mtime": "mtime",
    "inode": "inode",
    "sha256": "hash_sha256",
    "win_attributes": "attributes",
}
"""Members of the new and the old attributes, by fields; that of the old has ``_before`` appended."""
_AUDIT = (
    "user_id", "user_name", "group_id", "group_name", "process_name", "parent_name", "cwd", "parent_cwd", "audit_uid",
    "audit_name", "effective_uid", "effective_name", "ppid", "process_id",
)  # fmt: skip
_ACCESS = ("allowed", "denied")


def decoder_of(event: IntegrityEvent) -> str:
    """The internal decoder that rules find the event by. An old ``registry`` entry counts as a file."""
    kind: EntryType = "file" if event.reported_type == "registry" else event.type
    return _DECODERS[kind, event.change]


def alert_fields(event: IntegrityEvent) -> list[tuple[str, str]]:
    """The fields that the event has, as texts."""
    return [(name, text) for name, value in _fields(event) if (text := shown(value)) is not None]


def _fields(event: IntegrityEvent) -> Iterator[tuple[str, object]]:
    data, attributes, before = event.data, event.attributes, event.old_attributes
    yield "file", event.path
    yield "hard_links", _array(data.get("hard_links"))
    yield "mode", data.get("mode")
    for name, member in _PAIRS.items():
        yield name, attributes.get(member)
        yield f"{name}_before", before.get(member)
    yield "changed_content", data.get("content_changes")
    yield "changed_fields", _joined(data.get("changed_attributes"))
    for name in _AUDIT:
        yield name, event.audit.get(name)
    yield "tag", data.get("tags")
    yield "symbolic_path", attributes.get("symlink_path", attributes.get("symbolic_path"))
    yield "arch", data.get("arch")
    yield "value_name", data.get("value_name")
    yield "value_type", attributes.get("value_type")
    yield "hash_full_path", data.get("index")
    yield "entry_type", event.reported_type
    yield "event_type", event.change


def shown(value: object) -> str | None:
    """A text as it is, a number in decimal digits, permissions of Windows by account; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return permissions(value)
    number = integer(value) if is_number(value) else None
    return None if number is None else str(number)


def permissions(accounts: Members) -> str:
    """``<name> (allowed): RIGHT|RIGHT, <name> (denied): RIGHT``, from the object by account ids."""
    return ", ".join(
        f"{shown(account.get('name')) or identity} ({access}): {'|'.join(_texts(account[access])).upper()}"
        for identity, account in accounts.items()
        if isinstance(account, dict)
        for access in _ACCESS
        if access in account
    )


def _texts(values: object) -> list[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []


def _joined(values: object) -> str | None:
    return ",".join(found) if (found := _texts(values)) else None


def _array(values: object) -> str | None:
    return msgspec.json.encode(found).decode() if (found := _texts(values)) else None
