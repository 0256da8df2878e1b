"""The scan of one host: what is found, against what was found before.

The rows, the marks of what was to be compared, and the events that follow are written in one transaction.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, bindparam, false, or_, select, true

from secmon.inventory.changes import Changes
from secmon.inventory.schema import (
    packages,
    pending_events,
    vulnerabilities,
    vulnerability_marks,
    vulnerability_scans,
)
from secmon.inventory.vulnerabilities.events import Reporter, finding_event, first_scan_event
from secmon.inventory.vulnerabilities.host import Host
from secmon.inventory.vulnerabilities.matching import Finding, Matcher

VALID, OBSOLETE = "VALID", "OBSOLETE"
MAX_OBSOLETE = 10_000
"""Rows of one host; the oldest ones are deleted before their time."""
_KEEPS = ("detection_time",)
_TIMES = ("last_full", "last_partial")
_MOST_ITEMS = 500
"""Changed packages of a host that are looked up one by one."""

_SCAN = select(vulnerability_scans).where(vulnerability_scans.c.agent_id == bindparam("agent"))
_MARKS = select(vulnerability_marks.c.item).where(vulnerability_marks.c.agent_id == bindparam("agent"))
_STORED = select(vulnerabilities).where(vulnerabilities.c.agent_id == bindparam("agent"))
_INSTALLED = select(packages.c.item_id).where(packages.c.agent_id == bindparam("agent"))

Key = tuple[str, str]
"""Reference and CVE."""
StoredRow = dict[str, Any]


@dataclass
class Result:
    """What a scan has changed."""

    appeared: int = 0
    solved: int = 0
    events: list[bytes] = field(default_factory=list)


class _Scope(NamedTuple):
    """What is compared: ``items`` are packages, None: all; ``others``: the system, and what is no longer there."""

    items: frozenset[str] | None
    others: bool


_EVERYTHING = _Scope(None, True)


def scan_host(changes: Changes, of: Reporter, matcher: Matcher, now: int) -> Result:
    """Compare what has changed; everything when advisories have, or the system.

    Raises FeedError, and has changed nothing then.
    """
    agent = of.agent
    host = Host(agent, changes)
    row = changes.execute(vulnerability_scans, _SCAN, {"agent": agent}).mappings().one_or_none()
    before = None if row is None else dict(row)
    known: dict[str, str] = msgspec.json.decode(before["feeds"]) if before is not None else {}
    feeds = {each: matcher.source.digest(each) for each in host.ecosystems}
    full = before is None or bool(before["requested"]) or feeds != known
    scope = _EVERYTHING if full else _marked(changes, agent)
    found = list(_findings(matcher, host, scope))
    in_force = {each for each, digest in feeds.items() if digest}
    first = {each for each in in_force if not known.get(each)}
    result = _write(changes, of, scope, found, in_force, first, now)
    _write_scan(changes, agent, feeds, before, full, now)
    changes.execute(vulnerability_marks, vulnerability_marks.delete().where(vulnerability_marks.c.agent_id == agent))
    for event in result.events:
        changes.save(pending_events, {"event": event})
    return result


def _marked(changes: Changes, agent: int) -> _Scope:
    items = frozenset(changes.execute(vulnerability_marks, _MARKS, {"agent": agent}).scalars())
    return _Scope(items - {""}, "" in items) if len(items) <= _MOST_ITEMS else _EVERYTHING


def _findings(matcher: Matcher, host: Host, scope: _Scope) -> Iterable[Finding]:
    yield from matcher.findings(host, host.products(scope.items))
    if scope.others:
        yield from matcher.findings(host, host.system())


def _write(
    changes: Changes,
    of: Reporter,
    scope: _Scope,
    found: Iterable[Finding],
    in_force: Collection[str],
    first: Collection[str],
    now: int,
) -> Result:
    """Bring the rows in ``scope`` up to date. ``first``: ecosystems of which the host was not compared before."""
    stored = _stored(changes, of.agent, scope)
    wanted = {(row["reference"], row["cve"]): row for row in (_row(of.agent, each, now) for each in found)}
    appeared = {key: row for key, row in wanted.items() if not _is_valid(stored.get(key))}
    gone = {key: row for key, row in stored.items() if key not in wanted and _is_valid(row)}
    moved = _moved(appeared, gone)
    result, baseline = Result(), Counter[str]()
    for key, row in wanted.items():
        known = stored.get(key) or moved.get(key)
        if known is not None:
            row |= {name: known[name] for name in _KEEPS}
        if row != known:
            changes.save(vulnerabilities, row)
        if key in appeared and key not in moved:
            result.appeared += 1
            if row["ecosystem"] in first:
                baseline[row["severity"]] += 1
            else:
                result.events.append(finding_event(of, row, solved=False))
    replaced = {(row["reference"], row["cve"]) for row in moved.values()}
    for key, old in gone.items():
        if key in replaced:
            _delete(changes, of.agent, key)
            continue
        result.solved += 1
        changes.save(vulnerabilities, {**old, "status": OBSOLETE, "solved_time": now})
        if old["ecosystem"] in in_force:  # else its advisories are gone, not the flaw
            result.events.append(finding_event(of, old, solved=True))
    if result.solved:
        _forget_oldest(changes, of.agent)
    if baseline:
        result.events.append(first_scan_event(of, baseline))
    return result


def _moved(appeared: Mapping[Key, StoredRow], gone: Mapping[Key, StoredRow]) -> dict[Key, StoredRow]:
    """What is vulnerable as before in another version: the rows of before by the keys of now."""
    before = {(row["cve"], row["name"], row["architecture"]): row for row in gone.values()}
    same = {key: before.pop((row["cve"], row["name"], row["architecture"]), None) for key, row in appeared.items()}
    return {key: row for key, row in same.items() if row is not None}


def _is_valid(row: StoredRow | None) -> bool:
    return row is not None and row["status"] == VALID


def _stored(changes: Changes, agent: int, scope: _Scope) -> dict[Key, StoredRow]:
    rows = changes.execute(vulnerabilities, _STORED.where(_in(scope)), {"agent": agent}).mappings()
    return {(row["reference"], row["cve"]): dict(row) for row in rows}


def _in(scope: _Scope) -> ColumnElement[bool]:
    if scope.items is None:
        return true()
    column = vulnerabilities.c.reference
    others = or_(vulnerabilities.c.type == "OS", column.not_in(_INSTALLED)) if scope.others else false()
    return or_(column.in_(scope.items), others)


def _row(agent: int, found: Finding, now: int) -> dict[str, Any]:
    product, flaw = found
    return {
        "agent_id": agent,
        "reference": product.reference,
        "cve": flaw.cve,
        "type": product.type,
        "status": VALID,
        "name": product.name,
        "version": product.version,
        "architecture": product.architecture,
        "severity": flaw.rating.severity,
        "external_references": flaw.references,
        "condition": flaw.condition,
        "title": f"{flaw.cve} affects {product.name}",
        "published": flaw.published,
        "updated": flaw.updated,
        "ecosystem": product.ecosystem,
        "detection_time": now,
        "solved_time": None,
        "cvss2_score": flaw.rating.cvss2,
        "cvss3_score": flaw.rating.cvss3,
    }


def _delete(changes: Changes, agent: int, key: Key) -> None:
    table = vulnerabilities
    mine = table.c.agent_id == agent, table.c.reference == key[0], table.c.cve == key[1]
    changes.execute(table, table.delete().where(*mine))


def _forget_oldest(changes: Changes, agent: int) -> None:
    """Delete obsolete rows of the agent beyond the limit: it can make as many as it wants."""
    table = vulnerabilities
    obsolete = table.c.agent_id == agent, table.c.status == OBSOLETE
    since = (
        select(table.c.solved_time).where(*obsolete).order_by(table.c.solved_time.desc()).offset(MAX_OBSOLETE).limit(1)
    )
    limit = changes.execute(table, since).scalar()
    if limit is not None:
        changes.execute(table, table.delete().where(*obsolete, table.c.solved_time <= limit))


def _write_scan(
    changes: Changes, agent: int, feeds: Mapping[str, str], before: StoredRow | None, full: bool, now: int
) -> None:
    times = {"last_full": 0, "last_partial": 0} if before is None else {name: before[name] for name in _TIMES}
    times |= {"last_full" if full else "last_partial": now}
    text = msgspec.json.encode(feeds, order="sorted").decode()
    changes.save(vulnerability_scans, {"agent_id": agent, "feeds": text, "requested": 0, **times})
