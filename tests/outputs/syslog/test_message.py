"""Syslog messages: the public formats (manager.md 4.3) in both frames."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon import __version__
from secmon.config.outputs import SyslogOutput
from secmon.outputs.alert import Alert
from secmon.outputs.syslog.message import BODIES, MAX_BYTES, MessageMaker
from tests.outputs.alert_files import alert

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LOG = "Nov 22 12:00:00 web-3 sshd[9]: Failed password for root from 198.51.100.7 port 22 n=1"
HEADER = "<132>Nov 22 12:00:00 node01 ossec: "


def made(fields: dict[str, Any], **settings: Any) -> str:
    maker = MessageMaker(SyslogOutput(server="x", port=514, **settings), "node01")
    return maker.message(Alert(msgspec.json.encode(fields)), NOW).decode()


def test_default() -> None:
    assert made(alert(1)) == (
        f"{HEADER}Alert Level: 5; Rule: 5716 - sshd: authentication failed.; "
        "Location: (web-3) 192.0.2.3->/var/log/auth.log; "
        "classification: syslog,sshd,authentication_failed,pci_dss_10.2.4,; srcip: 198.51.100.7; user: root; " + LOG
    )


def test_changed_files_have_their_checksums() -> None:
    changed = {"md5_before": "aa", "md5_after": "bb", "path": "/etc/passwd"}
    shown = made(alert(1, syscheck=changed, full_log="File changed\nSize changed"))
    assert "; Previous MD5: aa; Current MD5: bb; File changed Size changed" in shown
    assert " fname=/etc/passwd externalId=1700000000.1 cs2=bb cs2Label=NewMD5 msg=" in made(
        alert(1, syscheck=changed), format="cef"
    )


def test_cef() -> None:
    fields = alert(1, full_log="a=b\\c|d\ne")
    fields["rule"]["description"] = "one|two\\three"
    assert made(fields, format="cef") == (
        f"<132>Nov 22 12:00:00 node01 CEF:0|secmon|secmon|{__version__}|5716|one\\|two\\\\three|5|"
        "dvc=mgr.example.org cs1=(web-3) 192.0.2.3->/var/log/auth.log cs1Label=Location "
        "cat=syslog,sshd,authentication_failed,pci_dss_10.2.4, src=198.51.100.7 suser=root spt=4022 "
        "externalId=1700000000.1 msg=a\\=b\\\\c|d\\ne"
    )


def test_splunk() -> None:
    assert made(alert(1, full_log='say "x"'), format="splunk") == (
        f'{HEADER}crit=5 id=5716 description="sshd: authentication failed." '
        'component="(web-3) 192.0.2.3->/var/log/auth.log", '
        'classification="syslog,sshd,authentication_failed,pci_dss_10.2.4,", src_ip="198.51.100.7", acct="root", '
        'message="say \\"x\\""'
    )


def test_json_is_the_alert() -> None:
    assert json.loads(made(alert(1), format="json").removeprefix(HEADER)) == alert(1)


def test_a_json_message_that_is_too_long_loses_its_logs_only() -> None:
    long = alert(1, full_log="x" * MAX_BYTES, previous_output="y" * MAX_BYTES)
    shown = json.loads(made(long, format="json").removeprefix(HEADER))
    assert shown == {name: value for name, value in long.items() if name not in ("full_log", "previous_output")}


def test_rfc_5424() -> None:
    assert made(alert(1), rfc=5424, format="json").startswith(
        '<132>1 2026-11-22T12:00:00.123+00:00 node01 ossec - - - {"timestamp"'
    )


def test_an_alert_of_the_manager_and_one_without_a_time() -> None:
    own = alert(1, agent={"id": "000", "name": "mgr.example.org"}, timestamp="?")
    assert made(own).startswith("<132>Mar  4 05:06:07 node01 ossec: Alert Level: 5")
    assert "; Location: mgr.example.org->/var/log/auth.log; " in made(own)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("rule", "agent", "manager", "data", "syscheck", "full_log", "location", "timestamp", "id", "cluster")


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(sorted(BODIES)),
    rfc=st.sampled_from([3164, 5424]),
    changes=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
)
def test_any_alert_gives_one_line_that_fits(form: str, rfc: int, changes: dict[str, Any]) -> None:
    shown = made(alert(1) | changes, format=form, rfc=rfc)
    assert not {"\n", "\0"} & set(shown)
    assert len(shown.encode()) <= MAX_BYTES
