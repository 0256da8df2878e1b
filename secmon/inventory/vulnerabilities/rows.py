"""The rows of a host's vulnerabilities, and what the analysis hears of their changes (agent-data.md 9.2)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, bindparam, false, or_, select, true

from secmon.inventory.changes import Changes
from secmon.inventory.schema import packages, vulnerabilities
from secmon.inventory.vulnerabilities.events import Reporter, finding_event, first_scan_event
from secmon.inventory.vulnerabilities.matching import Finding, Flaw

VALID, OBSOLETE = "VALID", "OBSOLETE"
MAX_OBSOLETE = 10_000
"""Rows of one host; the oldest ones are deleted before their time."""
_KEEPS = ("detection_time",)

_STORED = select(vulnerabilities).where(vulnerabilities.c.agent_id == bindparam("agent"))
_INSTALLED = select(packages.c.item_id).where(packages.c.agent_id == bindparam("agent"))

Key = tuple[str, str]
"""Reference and CVE."""
StoredRow = dict[str, Any]


class Scope(NamedTuple):
    """What is compared: ``items`` are packages, None: all; ``others``: the system, and what is no longer there."""

    items: frozenset[str] | None
    others: bool


class Ecosystems(NamedTuple):
    """Those of a host that have advisories in force, and those of them that it was not compared with before."""

    in_force: Collection[str]
    first: Collection[str]


@dataclass
class Result:
    """What a scan has changed. ``events``: encoded."""

    appeared: int = 0
    solved: int = 0
    events: list[bytes] = field(default_factory=list)


def update_rows(
    changes: Changes, of: Reporter, scope: Scope, found: Iterable[Finding], ecosystems: Ecosystems, now: int
) -> Result:
    """Bring the rows in ``scope`` up to date with what was ``found`` in it."""
    stored = _stored(changes, of.agent, scope)
    findings = {(each.product.reference, each.flaw.cve): each for each in found}
    wanted = {key: _row(of.agent, each, now) for key, each in findings.items()}
    appeared = {key: row for key, row in wanted.items() if not _is_valid(stored.get(key))}
    gone = {key: row for key, row in stored.items() if key not in wanted and _is_valid(row)}
    moved = _moved(appeared, gone)
    for key, row in wanted.items():
        known = stored.get(key) or moved.get(key)
        if known is not None:
            row |= {name: known[name] for name in _KEEPS}
        if row != known:
            changes.save(vulnerabilities, row)
    result = Result()
    new = [(row, findings[key].flaw) for key, row in appeared.items() if key not in moved]
    _report_new(of, new, ecosystems.first, result)
    replaced = {(row["reference"], row["cve"]) for row in moved.values()}
    for key in replaced:
        _delete(changes, of.agent, key)
    _solve(changes, of, [row for key, row in gone.items() if key not in replaced], ecosystems.in_force, now, result)
    return result


def _report_new(of: Reporter, rows: Collection[tuple[StoredRow, Flaw]], first: Collection[str], result: Result) -> None:
    """An event for each row, but for those of ecosystems that are new to the host: one for all of them."""
    baseline = Counter[str](row["severity"] for row, _ in rows if row["ecosystem"] in first)
    result.appeared = len(rows)
    result.events += (finding_event(of, row, flaw) for row, flaw in rows if row["ecosystem"] not in first)
    if baseline:
        result.events.append(first_scan_event(of, baseline))


def _solve(
    changes: Changes, of: Reporter, rows: Collection[StoredRow], in_force: Collection[str], now: int, result: Result
) -> None:
    """Make rows obsolete, with an event unless their advisories are gone rather than the flaw."""
    for row in rows:
        changes.save(vulnerabilities, {**row, "status": OBSOLETE, "solved_time": now})
    result.solved = len(rows)
    result.events += (finding_event(of, row) for row in rows if row["ecosystem"] in in_force)
    if rows:
        _forget_oldest(changes, of.agent)


def _moved(appeared: Mapping[Key, StoredRow], gone: Mapping[Key, StoredRow]) -> dict[Key, StoredRow]:
    """What is vulnerable as before in another version: the rows of before by the keys of now."""
    before = {(row["cve"], row["name"], row["architecture"]): row for row in gone.values()}
    same = {key: before.pop((row["cve"], row["name"], row["architecture"]), None) for key, row in appeared.items()}
    return {key: row for key, row in same.items() if row is not None}


def _is_valid(row: StoredRow | None) -> bool:
    return row is not None and row["status"] == VALID


def _stored(changes: Changes, agent: int, scope: Scope) -> dict[Key, StoredRow]:
    rows = changes.execute(vulnerabilities, _STORED.where(_in(scope)), {"agent": agent}).mappings()
    return {(row["reference"], row["cve"]): dict(row) for row in rows}


def _in(scope: Scope) -> ColumnElement[bool]:
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
