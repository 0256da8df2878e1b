"""The text of an alert about a change, for people (docs/reference/agent-data.md 3.5): no rule reads it."""

from collections.abc import Iterator

from secmon.inventory.integrity.alert_fields import shown
from secmon.inventory.integrity.integrity_event import IntegrityEvent

MAX_PATH = 756
"""Characters of the path; a longer one is cut in the middle."""
_CUT = " [...] "
_TITLES = {"file": "File", "registry_key": "Registry Key", "registry_value": "Registry Value"}
_LABELS = {
    "size": "Size",
    "perm": "Permissions",
    "uid": "User id",
    "user_name": "User name",
    "gid": "Group id",
    "group_name": "Group name",
    "mtime": "Modification time",
    "inode": "Inode",
    "hash_md5": "MD5",
    "hash_sha1": "SHA-1",
    "hash_sha256": "SHA-256",
    "attributes": "Attributes",
}
"""What the lines of changed attributes begin with."""


def alert_text(event: IntegrityEvent) -> str:
    """The lines of the alert: what changed, how it was found, and old and new values."""
    return "\n".join(_lines(event))


def _lines(event: IntegrityEvent) -> Iterator[str]:
    data = event.data
    yield f"{_TITLES[event.type]} '{shortened(_path(event))}' {event.change}"
    if links := _list(data.get("hard_links")):
        yield f"Hard links: {links}"
    if mode := shown(data.get("mode")):
        yield f"Mode: {mode}"
    if changed := _list(data.get("changed_attributes")):
        yield f"Changed attributes: {changed}"
    if event.change == "modified":
        for member, label in _LABELS.items():
            old, new = shown(event.old_attributes.get(member)), shown(event.attributes.get(member))
            if old is not None and new is not None and old != new:
                yield f"{label} changed from '{old}' to '{new}'"


def _path(event: IntegrityEvent) -> str:
    if event.type == "file":
        return event.path
    arch, value = (shown(event.data.get(name)) for name in ("arch", "value_name"))
    path = f"{arch} {event.path}" if arch else event.path
    return f"{path}\\{value}" if event.type == "registry_value" and value is not None else path


def shortened(path: str) -> str:
    """At most ``MAX_PATH`` characters of ``path``: its beginning and its end."""
    if len(path) <= MAX_PATH:
        return path
    half = (MAX_PATH - len(_CUT)) // 2
    return f"{path[:half]}{_CUT}{path[-half:]}"


def _list(values: object) -> str:
    return ",".join(one for one in values if isinstance(one, str)) if isinstance(values, list) else ""
