"""The scan of one host: what is found, against what was found before.

The rows, the marks of what was to be compared, and the events that follow are written in one transaction.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import bindparam, select

from secmon.inventory.changes import Changes
from secmon.inventory.schema import pending_events, vulnerability_marks, vulnerability_scans
from secmon.inventory.vulnerabilities.events import Reporter
from secmon.inventory.vulnerabilities.host import Host
from secmon.inventory.vulnerabilities.matching import Finding, Matcher
from secmon.inventory.vulnerabilities.rows import Ecosystems, Result, Scope, update_rows

_MOST_ITEMS = 500
"""Changed packages of a host that are looked up one by one."""
_EVERYTHING = Scope(None, True)
_TIMES = ("last_full", "last_partial")

_SCAN = select(vulnerability_scans).where(vulnerability_scans.c.agent_id == bindparam("agent"))
_MARKS = select(vulnerability_marks.c.item).where(vulnerability_marks.c.agent_id == bindparam("agent"))


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
    ecosystems = Ecosystems(in_force, {each for each in in_force if not known.get(each)})
    result = update_rows(changes, of, scope, found, ecosystems, now)
    _write_scan(changes, agent, feeds, before, full, now)
    changes.execute(vulnerability_marks, vulnerability_marks.delete().where(vulnerability_marks.c.agent_id == agent))
    for event in result.events:
        changes.save(pending_events, {"event": event})
    return result


def _marked(changes: Changes, agent: int) -> Scope:
    items = frozenset(changes.execute(vulnerability_marks, _MARKS, {"agent": agent}).scalars())
    return Scope(items - {""}, "" in items) if len(items) <= _MOST_ITEMS else _EVERYTHING


def _findings(matcher: Matcher, host: Host, scope: Scope) -> Iterable[Finding]:
    yield from matcher.findings(host, host.products(scope.items))
    if scope.others:
        yield from matcher.findings(host, host.system())


def _write_scan(
    changes: Changes, agent: int, feeds: Mapping[str, str], before: Mapping[str, Any] | None, full: bool, now: int
) -> None:
    times = {"last_full": 0, "last_partial": 0} if before is None else {name: before[name] for name in _TIMES}
    times |= {"last_full" if full else "last_partial": now}
    text = msgspec.json.encode(feeds, order="sorted").decode()
    changes.save(vulnerability_scans, {"agent_id": agent, "feeds": text, "requested": 0, **times})
