"""Ranges of versions from the events of a record (OSV schema, "Evaluation"; agent-data.md 9.5, 9.7)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from secmon.knowledge.vulnerabilities.versions import FIRST, just_after, version_key

_SHOWN = 200
"""Characters of a version in a condition."""


class Event(msgspec.Struct, frozen=True):
    """One of these; ``0`` is before all versions, ``*`` after all."""

    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None
    limit: str | None = None


class Interval(NamedTuple):
    """Keys from ``since`` to before ``until``; None: all that follow. ``condition``: in words."""

    since: bytes
    until: bytes | None
    condition: str


class _Bound(NamedTuple):
    """A change of state at a key, and its version."""

    key: bytes
    begins: bool
    version: str
    inclusive: bool = False


def intervals(events: Sequence[Event], order: str) -> Iterator[Interval]:
    """The ranges in which the events, walked in the order of versions, leave a package affected."""
    limit = _limit(events, order)
    begun: _Bound | None = None
    for bound in sorted(_bounds(events, order)):
        if bound.begins:
            begun = begun or bound
        elif begun is not None:
            yield from _interval(begun, bound, limit)
            begun = None
    if begun is not None:
        yield from _interval(begun, None, limit)


def exact_versions(versions: Iterable[str], known: Sequence[Interval], order: str) -> list[Interval]:
    """Ranges of the single ``versions`` that are in none of the ``known`` ones."""
    keys = sorted({version_key(order, version) for version in versions})
    return [
        Interval(key, just_after(key), "Package matches a vulnerable version")
        for key in keys
        if not any(each.since <= key and (each.until is None or key < each.until) for each in known)
    ]


def _bounds(events: Iterable[Event], order: str) -> Iterator[_Bound]:
    for event in events:
        if event.introduced is not None:
            key = FIRST if event.introduced == "0" else version_key(order, event.introduced)
            yield _Bound(key, True, event.introduced)
        if event.fixed is not None:
            yield _Bound(version_key(order, event.fixed), False, event.fixed)
        if event.last_affected is not None:
            yield _Bound(just_after(version_key(order, event.last_affected)), False, event.last_affected, True)


def _limit(events: Iterable[Event], order: str) -> bytes | None:
    """The highest limit; None: there is none."""
    limits = [event.limit for event in events if event.limit is not None]
    return max((version_key(order, each) for each in limits), default=None) if "*" not in limits else None


def _interval(begun: _Bound, ended: _Bound | None, limit: bytes | None) -> Iterator[Interval]:
    until = None if ended is None else ended.key
    if limit is not None and (until is None or limit < until):
        until = limit
    if until is None or begun.key < until:
        yield Interval(begun.key, until, _condition(begun, ended))


def _condition(begun: _Bound, ended: _Bound | None) -> str:
    since = "" if begun.key == FIRST else f"greater or equal than {begun.version[:_SHOWN]}"
    if ended is None:
        return f"Package {since or 'unfixed'}"
    until = f"less {'or equal than' if ended.inclusive else 'than'} {ended.version[:_SHOWN]}"
    return f"Package {since} and {until}" if since else f"Package {until}"
