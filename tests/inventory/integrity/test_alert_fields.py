"""The fields of rules, and the text of alerts."""

from typing import Any

import pytest

from secmon.inventory.integrity.alert_fields import alert_fields, permissions
from secmon.inventory.integrity.alert_text import MAX_PATH, alert_text, shortened
from secmon.inventory.integrity.integrity_event import read_event
from tests.inventory.integrity.reports import ADDED, DELETED, KEY, KEY_ADDED, KEY_HASH, MODIFIED, VALUE_MODIFIED


def fields(data: dict[str, Any]) -> dict[str, str]:
    return dict(alert_fields(read_event(data)))


def test_a_changed_file() -> None:
    assert fields(MODIFIED) == {
        "file": "/srv/demo/bravo", "hard_links": '["/srv/demo/charlie","/srv/a,b"]', "mode": "whodata",
        "size": "9", "size_before": "4", "perm": "rw-------", "perm_before": "rw-r--r--", "uid": "0", "uid_before": "0",
        "gid": "0", "gid_before": "0", "md5": "c1", "md5_before": "c1", "sha1": "7b", "sha1_before": "7b",
        "uname": "root", "uname_before": "root", "gname": "root", "gname_before": "root", "mtime": "1700000199",
        "mtime_before": "1700000002", "inode": "1002", "inode_before": "1002", "sha256": "27", "sha256_before": "27",
        "changed_content": "1c1\n< old\n---\n> new", "changed_fields": "size,permission,mtime",
        "user_id": "0", "user_name": "root", "group_id": "0", "group_name": "root", "process_name": "/usr/bin/vi",
        "parent_name": "/usr/bin/bash", "cwd": "/srv", "parent_cwd": "/srv", "audit_uid": "1000", "audit_name": "dana",
        "effective_uid": "0", "effective_name": "root", "ppid": "4000", "process_id": "4242", "tag": "demo,srv",
        "entry_type": "file", "event_type": "modified",
    }  # fmt: skip


def test_an_entry_of_the_registry() -> None:
    found = fields(KEY_ADDED)
    assert (found["file"], found["arch"], found["hash_full_path"]) == (KEY, "[x64]", KEY_HASH)
    assert found["perm"] == (
        "Administrators (allowed): READ_CONTROL|WRITE_DAC, "
        "Users, local (allowed): READ_CONTROL, Users, local (denied): WRITE_DATA"
    )
    assert fields(VALUE_MODIFIED)["value_name"] == "Setting"
    assert fields(VALUE_MODIFIED | {"value_name": ""})["value_name"] == ""


def test_values_of_other_types_are_left_out() -> None:
    odd = ADDED | {"mode": ["x"], "tags": {}, "audit": [], "hard_links": "x", "changed_attributes": [1, "size", {}]}
    odd["attributes"] = {"type": "file", "size": 4.0, "uid": True, "gid": None, "perm": 100644, "inode": "77"}
    assert fields(odd) == {
        "file": "/srv/demo/bravo", "size": "4", "perm": "100644", "inode": "77", "tag": "", "changed_fields": "size",
        "entry_type": "file", "event_type": "added",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("accounts", "text"),
    [
        ({}, ""),
        ({"S-1": {"allowed": ["delete", 5]}}, "S-1 (allowed): DELETE"),
        ({"S-1": {"name": "A", "denied": "x"}}, "A (denied): "),
        ({"S-1": 5}, ""),
    ],
)
def test_permissions(accounts: dict[str, Any], text: str) -> None:
    assert permissions(accounts) == text


def test_the_text_of_a_change() -> None:
    assert alert_text(read_event(MODIFIED)).split("\n") == [
        "File '/srv/demo/bravo' modified",
        "Hard links: /srv/demo/charlie,/srv/a,b",
        "Mode: whodata",
        "Changed attributes: size,permission,mtime",
        "Size changed from '4' to '9'",
        "Permissions changed from 'rw-r--r--' to 'rw-------'",
        "Modification time changed from '1700000002' to '1700000199'",
    ]
    assert alert_text(read_event(DELETED)) == "File '/srv/demo/bravo' deleted\nMode: realtime"


def test_the_text_names_entries_of_the_registry() -> None:
    assert alert_text(read_event(KEY_ADDED)).startswith(f"Registry Key '[x64] {KEY}' added\n")
    assert alert_text(read_event(VALUE_MODIFIED)).startswith(f"Registry Value '[x64] {KEY}\\Setting' modified\n")


def test_long_paths_are_cut_in_the_middle() -> None:
    assert shortened("a" * MAX_PATH) == "a" * MAX_PATH
    cut = shortened("a" * 500 + "b" * 500)
    assert len(cut) <= MAX_PATH
    assert (cut[0], cut[-1]) == ("a", "b")
    assert " [...] " in cut
