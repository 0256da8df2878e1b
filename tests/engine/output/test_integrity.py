"""The ``syscheck`` object of alerts."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.engine import Verdict
from secmon.engine.input.decoded_events import read_decoded_event
from secmon.engine.output.document import Documents, Origin, encode
from secmon.engine.output.text_records import alert_record
from secmon.engine.rules.rule import Rule
from secmon.inventory.decoded_event import DecodedEvent, encode_event
from secmon.inventory.integrity.alert_fields import alert_fields
from secmon.inventory.integrity.integrity_event import read_event
from tests.engine.rules_kit import START, nodes
from tests.inventory.integrity.reports import KEY, KEY_ADDED, MODIFIED, VALUE_MODIFIED

RULESET = nodes("")
RULE = Rule(550, 7, "", 0, description=b"changed")


def verdict(
    fields: list[tuple[str, str]], decoder: str = "syscheck_integrity_changed", rule: Rule | None = None
) -> Verdict:
    found = DecodedEvent(
        agent=4, name="web", location="(web) 192.0.2.4->syscheck", decoder=decoder, fields=fields, log="text"
    )
    event = read_decoded_event(encode_event(found), RULESET, START)
    assert event is not None
    return Verdict(event, rule, alert=False)


def document(fields: list[tuple[str, str]], decoder: str = "syscheck_integrity_changed") -> Any:
    return json.loads(encode(Documents(Origin("mgr")).of(verdict(fields, decoder), "1.0")))


def shown(report: dict[str, Any]) -> Any:
    return document(alert_fields(read_event(report)))["syscheck"]


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_changed_file() -> None:
    made = document(alert_fields(read_event(MODIFIED)))
    assert list(made) == ["timestamp", "agent", "manager", "id", "full_log", "syscheck", "decoder", "location"]
    assert json.dumps(made["syscheck"]) == json.dumps({
        "path": "/srv/demo/bravo", "hard_links": ["/srv/demo/charlie", "/srv/a,b"], "mode": "whodata",
        "size_before": "4", "size_after": "9", "perm_before": "rw-r--r--", "perm_after": "rw-------",
        "uid_after": "0", "gid_after": "0", "md5_after": "c1", "sha1_after": "7b", "sha256_after": "27",
        "uname_after": "root", "gname_after": "root", "mtime_before": "2023-11-15T03:43:22",
        "mtime_after": "2023-11-15T03:46:39", "inode_after": 1002, "diff": "1c1\n< old\n---\n> new",
        "tags": ["demo", "srv"], "changed_attributes": ["size", "permission", "mtime"], "event": "modified",
        "audit": {
            "user": {"id": "0", "name": "root"},
            "process": {
                "id": "4242", "name": "/usr/bin/vi", "cwd": "/srv", "parent_name": "/usr/bin/bash",
                "parent_cwd": "/srv", "ppid": "4000",
            },
            "group": {"id": "0", "name": "root"},
            "login_user": {"id": "1000", "name": "dana"},
            "effective_user": {"id": "0", "name": "root"},
        },
    })  # fmt: skip


def test_entries_of_the_registry() -> None:
    assert shown(KEY_ADDED) == {
        "path": KEY, "mode": "scheduled", "arch": "[x64]",
        "win_perm_after": [
            {"name": "Administrators", "allowed": ["READ_CONTROL", "WRITE_DAC"]},
            {"name": "Users, local", "allowed": ["READ_CONTROL"], "denied": ["WRITE_DATA"]},
        ],
        "uid_after": "S-1-5-32-544", "gid_after": "S-1-5-18", "uname_after": "Administrators", "gname_after": "SYSTEM",
        "mtime_after": "2023-11-15T03:43:19", "event": "added",
    }  # fmt: skip
    value = shown(VALUE_MODIFIED)
    assert (value["value_name"], value["value_type"]) == ("Setting", "REG_SZ")
    assert (value["size_before"], value["size_after"]) == ("4", "6")


def test_an_alert_as_text() -> None:
    found = alert_fields(read_event(MODIFIED | {"mode": "realtime"}))
    lines = alert_record(verdict(found, rule=RULE), "1.0").decode().split("\n")
    assert lines[lines.index("text") :] == [
        "text",
        "Attributes:",
        " - Size: 9", " - Permissions: rw-------", " - Date: 2023-11-15T03:46:39", " - Inode: 1002", " - User id: 0",
        " - User: root", " - Group id: 0", " - Group: root", " - MD5: c1", " - SHA-1: 7b", " - SHA-256: 27",
        "Changed by:",
        " - User: root", " - Login user: dana", " - Effective user: root", " - Group: root", " - Process: /usr/bin/vi",
        " - Process id: 4242", " - Folder: /srv", " - Parent process: /usr/bin/bash",
        "Difference:", "1c1", "< old", "---", "> new", "", "",
    ]  # fmt: skip


def test_attributes_of_windows() -> None:
    fields = [("win_attributes", "ARCHIVE, HIDDEN"), ("win_attributes_before", "ARCHIVE")]
    assert document(fields)["syscheck"] == {"attrs_before": ["ARCHIVE"], "attrs_after": ["ARCHIVE", "HIDDEN"]}


def test_events_of_other_scans_have_data() -> None:
    made = document([("sca.check.file", '["/etc/a"]'), ("sca.type", "check")], "sca")
    assert made["data"] == {"sca": {"check": {"file": ["/etc/a"]}, "type": "check"}}
    assert "syscheck" not in made
    rootcheck = document([("title", "t"), ("file", "/x"), ("program.name", ""), ("id", "5")], "rootcheck")
    assert rootcheck["data"] == {"title": "t", "file": "/x", "id": "5"}


NAMES = [name for name, _ in alert_fields(read_event(MODIFIED))] + ["arch", "win_attributes", "symbolic_path"]
VALUES = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["9" * 18, "-1", "1e9", "[", '["a"]', "a (allowed): X|Y, b", " (denied): ", ", ", "0x"]
)


@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES)), st.sampled_from(INTERNAL))
def test_whatever_the_fields_say_there_is_an_object(fields: list[tuple[str, str]], decoder: str) -> None:
    assert isinstance(document(fields, decoder), dict)
