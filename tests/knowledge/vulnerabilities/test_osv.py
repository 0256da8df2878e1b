"""Records of OSV feeds: what they are about, how severe it is, and which versions are affected."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.knowledge.vulnerabilities.ecosystems import System, ecosystem_of, ecosystem_of_host
from secmon.knowledge.vulnerabilities.osv import MAX_REFERENCES, read_record
from secmon.knowledge.vulnerabilities.records import FeedError, FeedRecord
from secmon.knowledge.vulnerabilities.scores import base_score
from secmon.knowledge.vulnerabilities.versions import version_key
from tests.knowledge.vulnerabilities.records import affected, encoded, fixed, record
from tests.offenders import Offenders


def read(found: dict[str, Any]) -> FeedRecord:
    return read_record(json.dumps(found).encode())


def condition(found: dict[str, Any], version: str, order: str = "deb") -> str | None:
    """In which words ``version`` of the one package is affected; None: it is not."""
    key = version_key(order, version)
    [ranges] = read(found).ranges.values()
    hits = [each for each in ranges if each.since <= key and (each.until is None or key < each.until)]
    assert len(hits) <= 1
    return hits[0].condition if hits else None


def test_conditions_of_events() -> None:
    vectors: list[tuple[list[dict[str, str]], str, str | None]] = [
        ([{"introduced": "0"}, {"fixed": "2.4.1-4"}], "2.4.1", "Package less than 2.4.1-4"),
        ([{"introduced": "0"}, {"fixed": "2.4.1-4"}], "2.4.1-4", None),
        ([{"introduced": "0"}, {"fixed": "2.4.1-4"}], "2.4.1-4~deb12u1", "Package less than 2.4.1-4"),
        ([{"introduced": "0"}, {"fixed": "2.4.1-4"}], "1:2.0-1", None),
        ([{"introduced": "0"}, {"last_affected": "2"}], "2", "Package less or equal than 2"),
        ([{"introduced": "0"}, {"last_affected": "2"}], "2.1", None),
        ([{"introduced": "1"}, {"fixed": "2"}], "1.5", "Package greater or equal than 1 and less than 2"),
        (
            [{"introduced": "1"}, {"last_affected": "2"}],
            "2",
            "Package greater or equal than 1 and less or equal than 2",
        ),
        ([{"introduced": "1"}], "9", "Package greater or equal than 1"),
        ([{"introduced": "1"}], "0.9", None),
        ([{"introduced": "0"}], "9", "Package unfixed"),
        ([{"fixed": "2"}, {"introduced": "3"}, {"introduced": "1"}, {"fixed": "4"}], "2.5", None),
        ([{"introduced": "0"}, {"limit": "3"}], "3", None),
        ([{"introduced": "0"}, {"limit": "3"}, {"limit": "*"}], "3", "Package unfixed"),
        ([], "1", None),
    ]
    with Offenders() as offenders:
        for events, version, expected in vectors:
            with offenders.row((events, version)):
                found = record("A", {"package": {"ecosystem": "Debian:12", "name": "demo"},
                                     "ranges": [{"type": "ECOSYSTEM", "events": events}]})  # fmt: skip
                assert condition(found, version) == expected


def test_listed_versions_count_where_no_range_has_them() -> None:
    found = fixed("A", "Debian:12", "demo", "2")
    found["affected"][0]["versions"] = ["1", "3-1"]
    assert len(read(found).ranges["Debian:12"]) == 2
    assert condition(found, "3-1") == "Package matches a vulnerable version"
    assert condition(found, "3-2") is None
    found["affected"][0]["ranges"] = [{"type": "GIT", "events": [{"introduced": "0"}]}]
    assert (condition(found, "1"), condition(found, "1.5")) == ("Package matches a vulnerable version", None)


def test_names_of_cves() -> None:
    one = affected("Debian:12", "demo")
    assert read(record("CVE-2099-0001", one)).advisory.cves == ["CVE-2099-0001"]
    found = record("DSA-2", one, related=["CVE-2099-0002", "DSA-1"], upstream=["CVE-2099-0001"])
    assert read(found).advisory.cves == ["CVE-2099-0001", "CVE-2099-0002"]
    library = affected("PyPI", "demo")
    assert read(record("GHSA-x", library, related=["CVE-2099-0002"])).advisory.cves == ["GHSA-x"]
    assert read(record("GHSA-x", library, aliases=["CVE-2099-0003"])).advisory.cves == ["CVE-2099-0003"]


def test_severities() -> None:
    high4 = "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:N/VI:N/VA:H/SC:N/SI:N/SA:N"
    vectors: list[tuple[Any, str]] = [
        ([{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N"}], "Medium"),
        ([{"type": "CVSS_V2", "score": "AV:L/AC:L/Au:N/C:C/I:C/A:C"}], "High"),
        ([{"type": "CVSS_V4", "score": high4}, {"type": "CVSS_V2", "score": "AV:L/AC:L/Au:N/C:N/I:N/A:P"}], "High"),
        ([{"type": "Ubuntu", "score": "negligible"}], "Low"),
        ([{"type": "CVSS_V3", "score": "nonsense"}], "Untriaged"),
        ([], "Untriaged"),
    ]
    with Offenders() as offenders:
        for severity, expected in vectors:
            with offenders.row(severity):
                [found] = read(record("A", affected("npm", "demo"), severity=severity)).ranges["npm"]
                assert found.rating.severity == expected
    words = record("A", affected("npm", "x"), severity=[], database_specific={"severity": "MODERATE"})
    assert read(words).ranges["npm"][0].rating.severity == "Medium"
    urgency = affected("Debian:12", "x", ecosystem_specific={"urgency": "unimportant"})
    assert read(record("A", urgency, severity=[])).ranges["Debian:12"][0].rating.severity == "Low"


def test_base_scores() -> None:
    """agent-data.md 9.7"""
    vectors = {
        ("3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"): 9.8,
        ("3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N"): 6.1,
        ("3", "CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H"): 7.8,
        ("3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H"): 10.0,
        ("3", "CVSS:3.1/AV:N/AC:H/PR:N/UI:N/S:U/C:N/I:N/A:H"): 5.9,
        ("2", "AV:N/AC:L/Au:N/C:P/I:P/A:P"): 7.5,
        ("2", "AV:L/AC:M/Au:N/C:N/I:P/A:C"): 5.4,
        ("2", "AV:N/AC:M/Au:N/C:N/I:P/A:N"): 4.3,
        ("2", "AV:L/AC:L/Au:N/C:C/I:C/A:C"): 7.2,
        ("2", "CVSS:3.1/AV:N/AC:H/PR:N/UI:N/S:U/C:N/I:N/A:H"): None,
    }
    assert {vector: base_score(*vector) for vector in vectors} == vectors


def test_ecosystems_of_feeds_and_hosts() -> None:
    vectors = {
        ("Debian:12",): System("debian", "Debian GNU/Linux", "12 (bookworm)", "12"),
        ("Ubuntu:22.04:LTS", "Ubuntu:Pro:22.04:LTS"): System("ubuntu", "Ubuntu", "22.04.4 LTS", "22", "04"),
        ("Ubuntu:23.10",): System("ubuntu", "Ubuntu", "23.10", "23", "10"),
        ("AlmaLinux:9",): System("almalinux", "AlmaLinux", "9.3", "9", "3"),
        ("Rocky Linux:9",): System("rocky", "Rocky Linux", "9.3", "9", "3"),
        ("Red Hat:enterprise_linux:9::baseos", "Red Hat:enterprise_linux:9::crb"): System("rhel", "", "9.3", "9", "3"),
        ("SUSE:Linux Enterprise Server 15 SP5", "SUSE:Linux Enterprise Module for Basesystem 15 SP5"):
            System("sles", "SLES", "15.5", "15", "5"),
        ("openSUSE:Leap 15.5",): System("opensuse-leap", "openSUSE Leap", "15.5", "15", "5"),
        ("Alpine:v3.19",): System("alpine", "Alpine Linux", "3.19.1", "3", "19"),
        ("Arch Linux",): System("arch", "Arch Linux"),
    }  # fmt: skip
    for names, system in vectors.items():
        assert {ecosystem_of(name) for name in names} == {ecosystem_of_host(system)}, names
    assert ecosystem_of_host(System("ubuntu", "Ubuntu", "22.04.4 LTS", "22", "04.4")) == "Ubuntu:22.04"
    assert ecosystem_of("crates.io") is ecosystem_of("Debian:sid") is ecosystem_of_host(System("plan9")) is None


def test_fixed_binaries_of_suse() -> None:
    binaries = {"binaries": [{"demo-lib": "1.2-3.1", "demo": "1.2-3.2"}]}
    found = affected(
        "SUSE:Linux Enterprise Server 15 SP5", "demo-src", {"fixed": "1.2-3.1"}, ecosystem_specific=binaries
    )
    ranges = read(record("SUSE-1", found)).ranges["SUSE:15 SP5"]
    assert [(each.name, each.condition) for each in ranges] == [
        ("demo-lib", "Package less than 1.2-3.1"), ("demo", "Package less than 1.2-3.2"),
    ]  # fmt: skip


def test_a_withdrawn_record_is_about_nothing() -> None:
    found = fixed("A", "Debian:12", "demo", "2", withdrawn="2099-01-13T00:00:00Z")
    assert read(found).ranges == {"Debian:12": []}


def test_a_description_of_ten_megabytes_and_many_references_are_bounded() -> None:
    found = fixed("A", "Debian:12", "demo", "2", details="x" * (10 << 20), summary="y" * 10000)
    found["references"] = [{"type": "WEB", "url": f"https://example.org/{number}"} for number in range(1000)]
    advisory = read(found).advisory
    assert (len(advisory.title), len(advisory.references)) == (2048, MAX_REFERENCES)


def test_versions_of_a_record_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secmon.knowledge.vulnerabilities.osv.MAX_VERSIONS", 5)
    found = fixed("A", "Debian:12", "demo", "2")
    found["affected"][0]["versions"] = ["1", "1.1", "1.2"]
    assert read(found).ranges
    found["affected"][0]["versions"].append("1.3")
    with pytest.raises(FeedError, match="more than 5 versions"):
        read(found)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b'{"id":1,"modified":"2099-01-01T00:00:00Z"}', encoded({"id": "A", "modified": "yesterday"}),
        encoded({"id": "", "modified": "2099-01-01T00:00:00Z"}), b'{"id":"A","modified":"\xff"}',
        encoded({"id": "A", "modified": "2099-01-01T00:00:00Z", "affected": [{"versions": 5}]}), b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(content: bytes) -> None:
    with pytest.raises(FeedError):
        read_record(content)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("severity", "urgency", "x")), inner),
    max_leaves=6,
)


@given(specific=_json, versions=st.lists(st.text(max_size=8), max_size=4), fix=st.text(max_size=8))
def test_any_record_is_read_or_refused(specific: Any, versions: list[str], fix: str) -> None:
    found = fixed("A", "Debian:12", "demo", fix)
    found["affected"][0] |= {"ecosystem_specific": specific, "versions": versions}
    try:
        ranges = read(found).ranges["Debian:12"]
    except FeedError:
        return
    assert all(each.until is None or each.since < each.until for each in ranges)
