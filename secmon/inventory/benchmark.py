"""Results of benchmark scans by CIS-CAT: those of the latest round of an agent are stored (agent-data.md 7)."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from sqlalchemy import delete, func, not_, or_, select

from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import event_of
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.schema import benchmark_results as results

DECODER = "ciscat"
SOURCE = "wodle_cis-cat"
"""Messages of other sources are dropped (agent-data.md 1.1)."""
MAX_RESULTS = 100
"""Benchmarks of a round that are stored."""
MAX_FIELDS = 100
"""Fields of an event."""

_DIGITS = re.compile(r"[0-9]{1,18}")


def handle_benchmark(message: AgentMessage, changes: Changes) -> None:
    """A :data:`secmon.inventory.changes.Handler`."""
    if message.source != SOURCE:
        raise MalformedMessage(f"its source is not {SOURCE}")
    found = message.json()
    kind, benchmark = found.get("type"), found.get("cis")
    if not isinstance(kind, str) or not isinstance(benchmark, dict):
        raise MalformedMessage("it has no type or no object cis")
    if kind == "scan_info":
        _store(message.agent, _integer(found.get("scan_id")), benchmark, changes)
    fields = list(islice(_fields(found, benchmark), MAX_FIELDS))
    changes.report(event_of(message, DECODER, fields, message.body))


def _store(agent: int, scan: int | None, found: Mapping[str, Any], changes: Changes) -> None:
    """Store the figures of a benchmark instead of those of earlier rounds. Raises MalformedMessage."""
    benchmark, profile = _string(found.get("benchmark")), _string(found.get("profile"))
    same_round = results.c.scan_id.is_not_distinct_from(scan)
    same = results.c.benchmark.is_not_distinct_from(benchmark) & results.c.profile.is_not_distinct_from(profile)
    mine = results.c.agent_id == agent
    others = select(func.count()).select_from(results).where(mine, same_round, not_(same))
    if changes.execute(results, others).scalar_one() >= MAX_RESULTS:
        raise MalformedMessage(f"the round has {MAX_RESULTS} benchmarks already")
    changes.execute(results, delete(results).where(mine, or_(not_(same_round), same)))
    row = {name: _integer(found.get(name)) for name in ("pass", "fail", "error", "notchecked", "unknown")}
    place = {"agent_id": agent, "scan_id": scan, "scan_time": _string(found.get("timestamp"))}
    score = _DIGITS.match(str(found.get("score")))
    row["score"] = int(score[0]) if score else None
    changes.save(results, {**place, "benchmark": benchmark, "profile": profile, **row})


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    """A number that the store can hold; None for others and negative ones."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _fields(found: Mapping[str, Any], benchmark: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The members of the message and of its object ``cis``."""
    named = chain(found.items(), ((f"cis.{name}", value) for name, value in benchmark.items()))
    for name, value in named:
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, str | int | float):
            yield name, str(value)
