"""Decoders written in code (ruleset.md 5.7, 5.9, 8.4)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.decoders.decoder_search import Plugin
from secmon.engine.decoders.devices import decode_forwarded_alert, decode_pf, decode_sonicwall, decode_symantec
from secmon.engine.decoders.eventchannel import convert as convert_event
from secmon.engine.decoders.eventchannel import decode_eventchannel
from secmon.engine.decoders.json_text import CUT_FROM
from secmon.engine.event import Event
from secmon.engine.input.predecode import Message, predecode

NOW = datetime(2023, 11, 14, tzinfo=UTC)
OPTIONS = Decoder("d", "", 0)


def convert(data: bytes) -> dict[str, Any] | None:
    found = convert_event(data)
    return None if found is None else found.document


def event_of(log: bytes) -> Event:
    return predecode(Message("1", b"/var/log/x", log), time=NOW, host=b"mgr")


def static(plugin: Plugin, log: str) -> dict[str, str]:
    event = event_of(log.encode())
    plugin(event, event.log, OPTIONS)
    return {name: value.decode() for name, value in event.static.items()}


def test_packet_filter() -> None:
    log = "rule 12/(match) block in on em0: 192.0.2.1.5501 > 198.51.100.2.53: udp 40"
    assert static(decode_pf, log) == {
        "action": "block", "srcip": "192.0.2.1", "srcport": "5501", "dstip": "198.51.100.2", "dstport": "53",
        "protocol": "UDP",
    }  # fmt: skip
    assert static(decode_pf, "rule 1/(match) scrub in on em0: 192.0.2.1 > 192.0.2.2: tcp") == {}


def test_symantec() -> None:
    assert static(decode_symantec, "2=12345678901,10=ana,11=192.0.2.4,60=http://a.example/,10=bob") == {
        "id": "2=1234567", "dstuser": "ana", "srcip": "192.0.2.4", "url": "http://a.example/",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("head", "category", "more"),
    [
        ("pri=1 c=32 m=82 ", "ids", {}),
        ("pri=6 c=1024 m=537 ", "firewall", {"action": "close"}),
        ("pri=6 c=1024 m=36 ", "firewall", {"action": "drop"}),
        ("pri=6 c=1 m=5 ", "syslog", {}),
    ],
)
def test_sonicwall(head: str, category: str, more: dict[str, str]) -> None:
    event = event_of(f"{head}src=192.0.2.1:55:X0 dst=198.51.100.2:80:X1 proto=tcp/http".encode())
    decode_sonicwall(event, event.log, OPTIONS)
    assert event.category == category
    assert {name: value.decode() for name, value in event.static.items()}.items() >= (
        {"srcip": "192.0.2.1", "srcport": "55", "dstip": "198.51.100.2", "dstport": "80", "protocol": "tcp/http"} | more
    ).items()


def test_a_forwarded_alert() -> None:
    event = event_of(
        b"Alert Level: 5; Rule: 5716 - Failed; Location: (web) 192.0.2.9->/x; srcip: 192.0.2.4; user: ana; the log"
    )
    decode_forwarded_alert(event, event.log, OPTIONS)
    assert (event.bound_rule, event.log, event.location) == (5716, b"the log", b"/var/log/x|(web) 192.0.2.9->/x")
    assert event.static == {"srcip": b"192.0.2.4", "dstuser": b"ana"}


@given(st.binary(max_size=80))
def test_any_text_is_survived(text: bytes) -> None:
    for plugin in (decode_pf, decode_symantec, decode_sonicwall, decode_forwarded_alert):
        plugin(event_of(text), text, OPTIONS)
    convert(text)
    convert(json.dumps({"Event": text.decode("latin-1")}).encode())


LOGON = """<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>
<Provider Name='Microsoft-Windows-Security-Auditing' Guid='{54849625}'/><EventID>4625</EventID><Level>0</Level>
<Keywords>0x8010000000000000</Keywords><TimeCreated SystemTime='2023-11-14T22:13:20Z'/><Correlation ActivityID='{1}'/>
<Execution ProcessID='4' ThreadID='88'/><Channel>Security</Channel><Computer>pc7</Computer></System>
<EventData><Data Name='TargetUserName'>ana</Data><Data Name='SubjectUserName'>-</Data>
<Data Name='ProcessName'>C:\\Windows\\lsass.exe</Data><Data>one</Data><Data>two</Data></EventData></Event>"""


def test_an_event_of_the_event_channel() -> None:
    found = convert(json.dumps({"Message": "An account failed.\r\n", "Event": LOGON}).encode())
    assert found == {
        "win": {
            "system": {
                "providerName": "Microsoft-Windows-Security-Auditing", "providerGuid": "{54849625}", "eventID": "4625",
                "level": "0", "keywords": "0x8010000000000000", "systemTime": "2023-11-14T22:13:20Z", "processID": "4",
                "threadID": "88", "channel": "Security", "computer": "pc7", "severityValue": "AUDIT_FAILURE",
                "message": '"An account failed."',
            },
            "eventdata": {"targetUserName": "ana", "processName": r"C:\\Windows\\lsass.exe", "data": "one, two"},
        }
    }  # fmt: skip


def channel(data: str = "", system: str = "") -> dict[str, dict[str, str]]:
    event = f"<Event><System><EventID>1</EventID>{system}</System><EventData>{data}</EventData></Event>"
    found = convert(json.dumps({"Event": event}).encode())
    assert found is not None
    win: dict[str, dict[str, str]] = found["win"]
    return win


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C:\\a", r"C:\\a"),
        ('say "a"', r"say \"a\""),
        ("one\r\n\t\ttwo", r"one\r\n\t\ttwo"),
        ("bell\x07 ", r"bell\u0007"),
        ("last\r\n", r"last\r\n"),
        ("\\\\host\\share\\", r"\\\\host\\share\\"),
        ("größe", "größe"),
    ],
)
def test_values_keep_the_escapes_of_the_text(value: str, expected: str) -> None:
    found = channel(f"<Data Name='One'>{value}</Data><Data Name='Two'>2</Data>")["eventdata"]
    assert found == {"one": expected, "two": "2"}


@pytest.mark.parametrize(
    ("system", "severity"),
    [
        ("<Level></Level><Keywords>0x8010000000000000</Keywords>", "AUDIT_FAILURE"),
        ("<Level/><Keywords>0x8020000000000000</Keywords>", "AUDIT_SUCCESS"),
        ("<Level> </Level><Keywords>0x0</Keywords>", "UNKNOWN"),
        ("<Level>0</Level><Keywords>none</Keywords>", "UNKNOWN"),
        ("<Level>9</Level><Keywords/>", "UNKNOWN"),
        ("<Level>2</Level>", None),
        ("<Keywords>0x8010000000000000</Keywords>", None),
        ("<Level>2</Level><Keywords>0x8010000000000000</Keywords>", "ERROR"),
    ],
)
def test_severity(system: str, severity: str | None) -> None:
    assert channel(system=system)["system"].get("severityValue") == severity


def test_names_of_audit_policies() -> None:
    xml = (
        "<Event><System><EventID>4719</EventID></System><EventData><Data Name='CategoryId'>%%8274</Data>"
        "<Data Name='SubcategoryId'>%%12800</Data><Data Name='AuditPolicyChanges'>%%8448, %%8450</Data></EventData></Event>"
    )
    found = convert(json.dumps({"Event": xml}).encode())
    assert found is not None
    data = found["win"]["eventdata"]
    assert (data["category"], data["subcategory"]) == ("Object Access", "File System")
    assert data["auditPolicyChanges"] == "Success removed, Failure removed"
    assert data["auditPolicyChangesId"] == "%%8448, %%8450"


@pytest.mark.parametrize("data", [b"{}", b"[]", b"text", b'{"Event": 5}'])
def test_what_is_no_such_event(data: bytes) -> None:
    assert convert(data) is None


def test_an_event_that_cannot_be_read_has_its_message() -> None:
    found = convert(b'{"Message": "m", "Event": "<a"}')
    assert found == {"win": {"system": {"message": '"m"'}}}


SYSTEM = "<System><EventID>4688</EventID><Channel>Security</Channel></System>"
BEFORE = f"<Event>{SYSTEM}<EventData><Data Name='evil'>yes</Data>"


@pytest.mark.parametrize(
    "rest",
    [
        "<Data Name='a'><![CDATA[</EventData><x>]]></Data>",
        "<Data Name='a' Name='b'>x</Data></EventData></Event>",
        "<Data Name='a>b'>x</Data></EventData></Event>",
        "<Data Name='a'>1 < 2</Data></EventData></Event>",
        "<Data Name='a'>x<!-- y</Data></EventData></Event>",
        "<?xml version='1.0'?></EventData></Event>",
        "<a>" * 3000,
        "<Data Name='a'>" + "x" * 30_000,
        "</Event>",
    ],
)
def test_what_is_no_xml_does_not_hide_what_comes_before(rest: str) -> None:
    data = json.dumps({"Message": "m", "Event": BEFORE + rest}).encode()
    event, decoder = event_of(data), Decoder("windows_eventchannel", "", 0)
    assert decode_eventchannel(event, decoder)
    assert event.names["win.eventdata.evil"] == b"yes"
    assert event.names["win.system.eventid"] == b"4688"
    assert event.full_log == data


@given(st.integers(0, 40), st.sampled_from(["\\", '"', "\n", "é", "\ud800", "x"]))
def test_an_event_that_was_cut_keeps_what_comes_before(cut: int, last: str) -> None:
    event = json.dumps({"Message": "m", "Event": f"{BEFORE}<Data Name='a'>{'x' * CUT_FROM}{last * 10}"})
    found = convert(event.encode()[: -cut - 1])
    assert found is not None
    assert found["win"]["eventdata"]["evil"] == "yes"
    assert found["win"]["system"]["eventID"] == "4688"


def test_a_later_part_of_an_event_changes_nothing_of_it() -> None:
    more = "<UserData><System><EventID>1</EventID></System><EventData><evil>no</evil></EventData></UserData>"
    found = convert(json.dumps({"Event": f"{BEFORE}<Data Name='evil'>no</Data></EventData>{more}</Event>"}).encode())
    assert found is not None
    assert (found["win"]["system"]["eventID"], found["win"]["eventdata"]) == ("4688", {"evil": "yes"})
