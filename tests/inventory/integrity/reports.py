"""Reports of changes as agents send them (docs/reference/agent-data.md 3.2)."""

import json
from typing import Any

from secmon.inventory.message import AgentMessage

KEY_HASH = "56d10cbe2b823190352b7a821a1e6f580ad0c525"
VALUE_HASH = "f18fbb0b4ed380128b21bf5f577259bfb6575c18"
KEY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Demo"

ADDED: dict[str, Any] = {
    "path": "/srv/demo/bravo", "version": 2, "mode": "scheduled", "type": "added", "timestamp": 1700000010,
    "attributes": {
        "type": "file", "size": 4, "perm": "rw-r--r--", "uid": "0", "gid": "0", "user_name": "root",
        "group_name": "root", "inode": 1002, "mtime": 1700000002, "hash_md5": "c1", "hash_sha1": "7b",
        "hash_sha256": "27", "checksum": "f13f",
    },
    "tags": "demo,srv",
}  # fmt: skip
MODIFIED: dict[str, Any] = ADDED | {
    "version": "2.0", "mode": "whodata", "type": "modified", "timestamp": 1700000200,
    "attributes": ADDED["attributes"] | {"size": 9, "mtime": 1700000199, "perm": "rw-------"},
    "old_attributes": ADDED["attributes"],
    "changed_attributes": ["size", "permission", "mtime"],
    "content_changes": "1c1\n< old\n---\n> new",
    "hard_links": ["/srv/demo/charlie", "/srv/a,b"],
    "audit": {
        "user_id": "0", "user_name": "root", "process_name": "/usr/bin/vi", "process_id": 4242, "cwd": "/srv",
        "group_id": "0", "group_name": "root", "audit_uid": "1000", "audit_name": "dana", "effective_uid": "0",
        "effective_name": "root", "parent_name": "/usr/bin/bash", "parent_cwd": "/srv", "ppid": 4000,
    },
}  # fmt: skip
DELETED: dict[str, Any] = ADDED | {"type": "deleted", "mode": "realtime"}
KEY_ADDED: dict[str, Any] = {
    "path": KEY, "index": KEY_HASH, "version": 3, "mode": "scheduled", "type": "added", "arch": "[x64]",
    "timestamp": 1700000400,
    "attributes": {
        "type": "registry_key",
        "perm": {
            "S-1-5-32-544": {"name": "Administrators", "allowed": ["read_control", "write_dac"]},
            "S-1-5-32-545": {"name": "Users, local", "allowed": ["read_control"], "denied": ["write_data"]},
        },
        "uid": "S-1-5-32-544", "user_name": "Administrators", "gid": "S-1-5-18", "group_name": "SYSTEM",
        "mtime": 1699999999, "checksum": "sum",
    },
}  # fmt: skip
VALUE_MODIFIED: dict[str, Any] = {
    "path": KEY, "index": VALUE_HASH, "version": 3, "mode": "scheduled", "type": "modified", "arch": "[x64]",
    "value_name": "Setting", "timestamp": 1700000500,
    "attributes": {"type": "registry_value", "value_type": "REG_SZ", "size": 6, "hash_md5": "b", "checksum": "sum"},
    "changed_attributes": ["size", "md5"],
    "old_attributes": {"type": "registry_value", "value_type": "REG_SZ", "size": 4, "hash_md5": "a"},
}  # fmt: skip
ALL = (ADDED, MODIFIED, DELETED, KEY_ADDED, VALUE_MODIFIED)


def message(body: str, agent: int = 4) -> AgentMessage:
    return AgentMessage("8", agent, "web-4", "(web-4) any->syscheck", body, received=1700000600.0)


def report(data: Any, kind: str = "event") -> AgentMessage:
    return message(json.dumps({"type": kind, "data": data}))
