"""STIX bundles of ATT&CK: what is read, and what is refused."""

import gzip
from collections.abc import Callable, Iterator
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.knowledge.attack.importing import read_any
from secmon.knowledge.attack.knowledge_base import build
from secmon.knowledge.attack.records import AttackError, Record, read_records, write_records
from tests.knowledge.attack.bundles import (
    GROUP,
    MITIGATION,
    OLD,
    PART,
    TACTIC,
    TECHNIQUE,
    TOOL,
    bundle,
    relation,
    stix,
)


def test_a_bundle_becomes_items() -> None:
    base = build(read_any(BytesIO(bundle(spec_version="2.0"))))
    technique = next(item for item in base.items["technique"] if item["external_id"] == "T1110")
    assert technique == {
        "id": TECHNIQUE["id"],
        "name": "Brute Force",
        "description": "Guessing.",
        "created_time": "2020-01-02T03:04:05.678000Z",
        "modified_time": "2021-01-02T03:04:05.000000Z",
        "external_id": "T1110",
        "url": "https://attack.example/T1110",
        "source": "mitre-attack",
        "mitre_version": "2.8",
        "deprecated": 0,
        "network_requirements": 0,
        "remote_support": 0,
        "tactics": [TACTIC["id"]],
        "mitigations": [MITIGATION["id"]],
        "software": [],
        "groups": [GROUP["id"]],
        "references": [],
    }
    by_id = {item["external_id"]: item for items in base.items.values() for item in items}
    assert by_id["T1110.003"]["subtechnique_of"] == TECHNIQUE["id"]
    assert by_id["T0001"]["revoked_by"] == TECHNIQUE["id"]
    assert by_id["TA0006"]["techniques"] == [TECHNIQUE["id"], PART["id"]]
    assert (by_id["G0001"]["software"], by_id["S0001"]["groups"]) == ([TOOL["id"]], [GROUP["id"]])
    assert base.metadata == [{"key": "db_version", "value": "1"}, {"key": "mitre_version", "value": "2.0"}]


def test_techniques_in_use() -> None:
    base = build(read_any(BytesIO(bundle())))
    assert base.techniques["T1110"] == ("Brute Force", {"TA0006": "Credential Access"})
    assert set(base.techniques) == {"T1110", "T1110.003"}
    assert base.unused == {"T0001": "revoked"}


def test_the_file_holds_what_was_read() -> None:
    records = read_any(BytesIO(gzip.compress(bundle())))
    assert list(read_records(write_records(iter(records)))) == records
    assert write_records(iter(records)) == write_records(iter(records))


def test_further_references_need_an_address() -> None:
    references = [
        *TECHNIQUE["external_references"],
        {"source_name": "Paper", "url": "https://example.org/p", "description": "A paper"},
        {"source_name": "Book"},
    ]
    base = build(read_any(BytesIO(bundle(TACTIC, {**TECHNIQUE, "external_references": references}))))
    shown = {"url": "https://example.org/p", "description": "A paper", "source": "Paper"}
    assert base.items["technique"][0]["references"] == [shown]
    assert [each["source"] for each in base.references if each["id"] == TECHNIQUE["id"]] == ["mitre-attack", "Paper"]


LOOP = stix("attack-pattern", 8, "Loop", "T2")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a STIX bundle"),
        (b"{}", "not a STIX bundle"),
        (b"[" * 100_000, "not a STIX bundle"),
        (bundle()[:-20], "not a STIX bundle"),
        (bundle().replace(b'"bundle"', b'"report"'), "its type is 'report'"),
        (gzip.compress(bundle())[:-9], "not a whole gzip file"),
        (bundle(TECHNIQUE), "no tactics"),
        (bundle(TACTIC, TACTIC), "is there twice"),
        (bundle(TACTIC, {**TECHNIQUE, "name": 7}), "object 1 of the bundle"),
        (bundle(TACTIC, {**TECHNIQUE, "id": "tool--1"}), "the id of another type"),
        (bundle(TACTIC, {**TECHNIQUE, "name": ""}), "has no name"),
        (bundle(TACTIC, {"id": "x"}), "object 1 of the bundle"),
        (
            bundle(
                TACTIC, LOOP, PART, relation("subtechnique-of", LOOP, PART), relation("subtechnique-of", PART, LOOP)
            ),
            "related to itself",
        ),
        (bundle(TACTIC, OLD, relation("revoked-by", OLD, OLD)), "related to itself"),
    ],
)
def test_bundles_that_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(AttackError, match=reason):
        read_any(BytesIO(content))


def test_long_texts_are_cut_and_bombs_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    base = build(read_any(BytesIO(bundle(TACTIC, {**TECHNIQUE, "description": "x" * (10 << 20)}))))
    assert len(base.items["technique"][0]["description"]) == 1 << 18
    monkeypatch.setattr("secmon.knowledge.attack.importing.MAX_BYTES", 1 << 16)
    with pytest.raises(AttackError, match="more than"):
        read_any(BytesIO(gzip.compress(b" " * (1 << 20))))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    readers: tuple[Callable[[], Iterator[Record]], ...] = (
        lambda: iter(read_any(BytesIO(content))),
        lambda: read_records(content),
    )
    for read in readers:
        try:
            build(read())
        except AttackError:
            continue
