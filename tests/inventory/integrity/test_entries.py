"""Rows of files and of entries of the registry."""

from typing import Any

import pytest

from secmon.inventory.integrity.entries import entry_key, entry_row
from secmon.inventory.message import MalformedMessage
from secmon.inventory.schema import fim_entries
from secmon.inventory.values import MAX_INTEGER

FILE: dict[str, Any] = {
    "index": "/srv/demo/bravo",
    "timestamp": 1700000002,
    "attributes": {
        "attributes": "", "checksum": "f13f518249ac594d9dacde1f75315fc599b39c4e", "gid": "0", "group_name": "root",
        "hash_md5": "c1", "hash_sha1": "7b", "hash_sha256": "27", "inode": 1002, "mtime": 1700000002,
        "perm": "rw-r--r--", "size": 4, "type": "file", "uid": "0", "user_name": "root",
    },
}  # fmt: skip
KEY = r"HKEY_LOCAL_MACHINE\SOFTWARE\Demo"


def file(**attributes: Any) -> dict[str, Any]:
    return FILE | {"attributes": FILE["attributes"] | attributes}


def registry(kind: str, **data: Any) -> dict[str, Any]:
    return {"path": KEY, "timestamp": 5, "attributes": {"type": kind, "checksum": "sum"}, **data}


def test_a_file() -> None:
    row = entry_row(4, FILE)
    assert row == {
        "agent_id": 4, "type": "file", "full_path": "/srv/demo/bravo", "file": "/srv/demo/bravo", "date": 1700000002,
        "changes": 1, "arch": None, "value_name": None, "value_type": None, "perm": "rw-r--r--", "uid": "0", "gid": "0",
        "uname": "root", "gname": "root", "md5": "c1", "sha1": "7b", "sha256": "27", "attributes": None,
        "symbolic_path": None, "checksum": "f13f518249ac594d9dacde1f75315fc599b39c4e", "size": 4, "mtime": 1700000002,
        "inode": 1002,
    }  # fmt: skip
    assert row is not None
    assert set(row) == set(fim_entries.c.keys())


@pytest.mark.parametrize(
    ("inode", "stored"),
    [("4711", 4711), ("18446744073709551615", MAX_INTEGER), ("many", 0), (None, None), (1 << 70, MAX_INTEGER)],
)
def test_inodes(inode: object, stored: int | None) -> None:
    row = entry_row(4, file(inode=inode))
    assert row is not None
    assert row["inode"] == stored


def test_permissions_of_windows() -> None:
    row = entry_row(4, file(perm={"S-1-5-32": {"name": "Users", "denied": ["write_data"]}}))
    assert row is not None
    assert row["perm"] == '{"S-1-5-32":{"name":"Users","denied":["write_data"]}}'


def test_unknown_members_are_ignored_and_wrong_types_are_null() -> None:
    row = entry_row(4, file(newer="x", uid=[], gid=5, size="many", user_name=True))
    assert row is not None
    assert [row[name] for name in ("uid", "gid", "size", "uname")] == [None, "5", None, None]


def test_names_of_the_registry() -> None:
    def name(kind: str, **data: Any) -> Any:
        row = entry_row(4, registry(kind, **data))
        return row and (row["type"], row["full_path"])

    assert name("registry_key", version=3, index="56d1") == ("registry_key", "56d1")
    assert name("registry_value", version=3, index="f18f", value_name="") == ("registry_value", "f18f")
    assert name("registry_key", version=2, arch="[x64]") == (
        "registry_key", r"[x64] HKEY_LOCAL_MACHINE\\SOFTWARE\\Demo",
    )  # fmt: skip
    assert name("registry_value", version=2, arch="[x64]", value_name="a:b") == (
        "registry_value", r"[x64] HKEY_LOCAL_MACHINE\\SOFTWARE\\Demo:a\:b",
    )  # fmt: skip
    assert name("registry") == ("registry_key", KEY)
    assert name("registry_key", index="56d1") is None
    assert name("registry_key", index="56d1", version="3") is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        FILE | {"attributes": []},
        FILE | {"timestamp": "5"},
        FILE | {"timestamp": True},
        FILE | {"index": 5},
        file(type="folder"),
        file(type=["file"]),
        registry("registry_key", version=3),
        registry("registry_key", version=2),
        registry("registry_value", version=2, arch="[x64]"),
    ],
)
def test_malformed_entries(data: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        entry_row(4, data)


def test_deleted_entries() -> None:
    assert entry_key({"path": "/a", "index": "b"}, "file") == "/a"
    assert entry_key({"path": "/a", "index": "b"}, "registry_key") == "b"
    with pytest.raises(MalformedMessage):
        entry_key({"path": "/a"}, "registry_value")
