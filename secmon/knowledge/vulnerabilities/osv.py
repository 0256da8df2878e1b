"""Records of feeds in the OSV format (ossf.github.io/osv-schema; agent-data.md 9.7)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from secmon.knowledge.vulnerabilities.ecosystems import ecosystem_of, kind_of, package_name
from secmon.knowledge.vulnerabilities.ranges import Event, exact_versions, intervals
from secmon.knowledge.vulnerabilities.records import Advisory, AffectedRange, FeedError, FeedRecord
from secmon.knowledge.vulnerabilities.scores import rating

MAX_RECORD = 64 << 20
"""Bytes of a record; those of public feeds have some kilobytes."""
MAX_REFERENCES = 100
MAX_VERSIONS = 200_000
"""Of all packages of a record; those of public feeds name some thousands."""
_MAX_TEXT = 2048
_MAX_ID = 200
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,19}")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(?:Z|\+00:00)")
_LANGUAGES = ("PyPI", "npm")


class _Package(msgspec.Struct):
    ecosystem: str
    name: str


class _Range(msgspec.Struct):
    type: str
    events: list[Event] = []


class _Severity(msgspec.Struct):
    type: str
    score: str


class _Affected(msgspec.Struct):
    package: _Package | None = None
    severity: list[_Severity] | None = None
    ranges: list[_Range] | None = None
    versions: list[str] | None = None
    ecosystem_specific: dict[str, Any] | None = None
    database_specific: dict[str, Any] | None = None


class _Reference(msgspec.Struct):
    url: str = ""


class _Record(msgspec.Struct):
    """The members that are used; texts such as ``details`` are not even decoded."""

    id: str
    modified: str
    published: str | None = None
    withdrawn: str | None = None
    aliases: list[str] | None = None
    related: list[str] | None = None
    upstream: list[str] | None = None
    summary: str | None = None
    severity: list[_Severity] | None = None
    affected: list[_Affected] | None = None
    references: list[_Reference] | None = None
    database_specific: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Record).decode


def read_record(content: bytes) -> FeedRecord:
    """The record in ``content``. It has the ecosystems that agents report packages of, without ranges when withdrawn.

    Raises FeedError.
    """
    try:
        found = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FeedError(f"it is no OSV record: {error}") from None
    if not 0 < len(found.id) <= _MAX_ID:
        raise FeedError(f"its id has {len(found.id)} characters")
    if _size(found) > MAX_VERSIONS:
        raise FeedError(f"it names more than {MAX_VERSIONS} versions")
    ranges: dict[str, list[AffectedRange]] = {}
    for affected in found.affected or ():
        ecosystem = None if affected.package is None else ecosystem_of(affected.package.ecosystem)
        if ecosystem is not None:
            ranges.setdefault(ecosystem, []).extend(() if found.withdrawn else _ranges(found, affected, ecosystem))
    return FeedRecord(
        advisory=_advisory(found, distribution=any(each not in _LANGUAGES for each in ranges)),
        modified=moment(found.modified),
        ranges=ranges,
    )


def _size(found: _Record) -> int:
    """How many versions and changes of ranges it names."""
    affected = found.affected or ()
    events = sum(len(part.events) for each in affected for part in each.ranges or ())
    return events + sum(len(each.versions or ()) for each in affected)


def _advisory(found: _Record, *, distribution: bool) -> Advisory:
    named = [found.id, *(found.aliases or ()), *(found.upstream or ())]
    cves = _cves(named)
    if distribution:
        cves |= _cves(found.related or ())
    urls = dict.fromkeys(each.url[:_MAX_TEXT] for each in found.references or () if each.url)
    return Advisory(
        id=found.id,
        cves=sorted(cves) or [found.id],
        title=(found.summary or "")[:_MAX_TEXT],
        references=list(urls)[:MAX_REFERENCES],
        published=moment(found.published)[:10] if found.published else "",
        updated=moment(found.modified)[:10],
    )


def _cves(names: Iterable[str]) -> set[str]:
    return {name for name in names if _CVE.fullmatch(name)}


def moment(text: str) -> str:
    """A time with six digits of a second, so that texts compare as times. Raises FeedError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise FeedError(f"{text[:40]!r} is no time such as 2026-01-31T10:00:00Z")
    return f"{found[1]}T{found[2]}.{(found[3] or '')[:6]:0<6}Z"


def _ranges(record: _Record, affected: _Affected, ecosystem: str) -> Iterator[AffectedRange]:
    assert affected.package is not None, "its ecosystem is known"
    order, name = kind_of(ecosystem).order, package_name(ecosystem, affected.package.name)
    severities = [*(affected.severity or ()), *(record.severity or ())]
    rated = rating(_vectors(severities), _words(record, affected, severities))
    hotfixes = tuple(sorted(_texts(affected.ecosystem_specific, "hotfixes")))
    binaries = list(_binaries(affected.ecosystem_specific))
    events = [each.events for each in affected.ranges or () if each.type in ("ECOSYSTEM", "SEMVER")]
    if binaries:
        fixes = [(each, [_FROM_FIRST, Event(fixed=version)]) for each, version in binaries]
        found = [(each, part) for each, fix in fixes for part in intervals(fix, order)]
    else:
        parts = [part for each in events for part in intervals(each, order)]
        parts += exact_versions(affected.versions or (), parts, order)
        found = [(name, part) for part in parts]
    for each, part in found:
        yield AffectedRange(
            name=each, since=part.since, until=part.until, condition=part.condition, rating=rated, hotfixes=hotfixes
        )


_FROM_FIRST = Event(introduced="0")


def _vectors(severities: Iterable[_Severity]) -> dict[str, str]:
    """The first vector of each version of CVSS."""
    found: dict[str, str] = {}
    for each in severities:
        if each.type in ("CVSS_V2", "CVSS_V3", "CVSS_V4"):
            found.setdefault(each.type[-1], each.score)
    return found


def _words(record: _Record, affected: _Affected, severities: Iterable[_Severity]) -> Iterator[str]:
    """Where feeds say in words how severe it is: closest to the package first."""
    for place in (affected.ecosystem_specific, affected.database_specific):
        for member in ("severity", "urgency"):
            yield from _texts(place, member)
    yield from (each.score for each in severities if not each.type.startswith("CVSS_"))
    yield from _texts(record.database_specific, "severity")


def _texts(place: Mapping[str, Any] | None, member: str) -> list[str]:
    value = (place or {}).get(member)
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def _binaries(place: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """SUSE: packages and the versions in which they are fixed; its ranges are about the source package."""
    listed = (place or {}).get("binaries")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            yield from ((name, version) for name, version in each.items() if isinstance(version, str))
