"""Findings of rootcheck: what is stored of them, and what rules see."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.inventory import rootcheck
from secmon.inventory.message import MalformedMessage
from secmon.inventory.rootcheck import MARKERS, MAX_TEXT, file_of, handle_rootcheck, title_of
from secmon.inventory.schema import rootcheck_findings
from tests.inventory.handled_messages import HandledMessages, message_of

CIS = (
    "System Audit: CIS - Demo Linux - 1.2 - Sample item {CIS: 1.2 Demo} {PCI_DSS: 2.2}. File: /etc/demo.conf. "
    "Reference: https://example.org/b.pdf ."
)
AUDIT = "System Audit: Demo hardening: root login allowed. File: /etc/ssh/sshd_config."
OWNED = "File '/opt/demo/x y' is owned by root and has written permissions to anyone."
TROJAN = "Trojaned version of file '/bin/demo' detected. Signature used: 'abc' (Generic)."
ROOTKIT = "Rootkit 'Demo' detected by the presence of file '/dev/.demo'."


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path, handle_rootcheck)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("text", "title", "file", "pci_dss", "cis"),
    [
        (CIS, "CIS - Demo Linux - 1.2 - Sample item", "/etc/demo.conf", "2.2", "1.2 Demo"),
        (AUDIT, "Demo hardening: root login allowed.", "/etc/ssh/sshd_config", None, None),
        (
            OWNED,
            "File is owned by root and has written permissions to anyone.",
            "/opt/demo/x y",
            None,
            None,
        ),
        (TROJAN, "Trojaned version of file detected.", "/bin/demo", None, None),
        (ROOTKIT, ROOTKIT, None, None, None),
        ("Anomaly in File: /a without an end", "Anomaly in File: /a without an end", None, None, None),
        (" {at the beginning} stays", " {at the beginning} stays", None, None, None),
        ("A - System Audit: stays. Rest", "A - System Audit: stays.", None, None, None),
        ("an open tag {CIS: 1", "an open tag", None, None, None),
    ],
)
def test_title_file_and_tags(
    node: HandledMessages, text: str, title: str, file: str | None, pci_dss: str | None, cis: str | None
) -> None:
    (event,) = node.handle(message_of("rootcheck", text)).events
    assert (event.decoder, event.location, event.log) == ("rootcheck", "(web-4) any->rootcheck", text)
    assert event.fields == [("title", title), *([("file", file)] if file else [])]
    (row,) = node.rows(rootcheck_findings)
    assert (row["log"], row["pci_dss"], row["cis"]) == (text, pci_dss, cis)


def test_a_finding_that_is_repeated_gets_another_date_and_is_not_new(node: HandledMessages) -> None:
    first = node.handle(message_of("rootcheck", AUDIT, received=1000.5))
    again = node.handle(message_of("rootcheck", AUDIT, received=2000.0), message_of("rootcheck", OWNED, received=2001))
    assert [event.first_seen for event in [*first.events, *again.events]] == [True, False, True]
    rows = node.rows(rootcheck_findings)
    assert [(row["log"], row["date_first"], row["date_last"]) for row in rows] == [
        (AUDIT, 1000, 2000),
        (OWNED, 2001, 2001),
    ]


def test_the_markers_of_a_scan_are_stored(node: HandledMessages) -> None:
    node.handle(*(message_of("rootcheck", text) for text in MARKERS))
    assert [row["log"] for row in node.rows(rootcheck_findings)] == list(MARKERS)


def test_the_same_finding_of_another_agent_is_new(node: HandledMessages) -> None:
    node.handle(message_of("rootcheck", AUDIT))
    assert node.handle(message_of("rootcheck", AUDIT, agent=5)).events[0].first_seen
    assert len(node.rows(rootcheck_findings, 5)) == 1


def test_an_empty_finding_is_dropped_and_a_long_one_is_cut(node: HandledMessages) -> None:
    with pytest.raises(MalformedMessage):
        node.handle(message_of("rootcheck", ""))
    node.handle(message_of("rootcheck", "x" + "ä" * MAX_TEXT))
    (row,) = node.rows(rootcheck_findings)
    assert row["log"] == "x" + "ä" * (MAX_TEXT // 2 - 1)


def test_a_new_finding_takes_the_place_of_the_oldest(node: HandledMessages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootcheck, "MAX_FINDINGS", 4)
    for number, text in enumerate((MARKERS[0], "one", "two", "three", "one", "four")):
        node.handle(message_of("rootcheck", text, received=1000 + number))
    assert [row["log"] for row in node.rows(rootcheck_findings)] == [MARKERS[0], "one", "three", "four"]


@given(
    st.lists(st.sampled_from(["System Audit: ", " - ", " {", "{CIS: ", "}", "File: ", "file '", "' ", ". ", "'", "x"]))
)
def test_any_text_has_a_title_and_perhaps_a_file(parts: list[str]) -> None:
    text = "".join(parts)
    assert len(title_of(text)) <= len(text)
    assert (file_of(text) or "") in text
