"""Agents as a collection of the API: its fields, their columns, and conditions on them (conventions.md 5.2 and 6).

The table has no row of the manager, which the API lists as agent 000: its row is built for each query
(:func:`manager_row`), and :mod:`secmon.agents.registry.queries` combines the two.
"""

import platform
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import msgspec
from sqlalchemy import ColumnElement, FromClause, Integer, Select, Subquery, and_, cast, func, literal, or_, select

from secmon.agents.registry.schema import agent_groups, agents
from secmon.agents.wire.keepalive import System, parse_system
from secmon.agents.wire.version import MANAGER_VERSION
from secmon.common.query import Fields, Op, Sort
from secmon.common.query.columns import Column, Kind
from secmon.common.query.dates import Age
from secmon.common.query.folding import escaped, folded, like
from secmon.common.query.sql_engine import equals
from secmon.security.rbac.evaluate import Scope

MANAGER_ID = "000"
_FIRST_DAY = date(1970, 1, 1)
_MINUTES = tuple(f"T{hour:02}:{minute:02}" for hour in range(24) for minute in range(60))
_SECONDS = tuple(f":{second:02}+00:00" for second in range(60))
NEVER_EXPIRES = 253402300799
"""The manager's last keepalive: the last second of the year 9999."""

FIELDS = Fields(
    engine="sql",
    select=(
        *("id", "name", "ip", "registerIP", "status", "status_code", "version", "manager", "node_name", "dateAdd"),
        *("lastKeepAlive", "disconnection_time", "group", "group_config_status", "mergedSum", "configSum"),
        *("os.name", "os.version", "os.platform", "os.codename", "os.major", "os.minor", "os.uname", "os.arch"),
        "os.build",
    ),
    required=("id",),
    dates=("lastKeepAlive", "dateAdd"),
    operators={"group": frozenset({Op.EQ, Op.NE, Op.LIKE})},
    numeric=("id",),
)
BY_ID = Sort(("id",))

Columns = Mapping[str, Column]
Condition = Callable[[Columns], ColumnElement[bool]]
"""A condition on agents, whichever of table and manager's row the columns belong to."""

_FIELD_COLUMNS = (
    *("id", "name", "ip", "register_ip", "connection_status", "status_code", "version", "manager_host", "node_name"),
    *("date_add", "last_keepalive", "disconnection_time", "group", "group_config_status", "merged_sum", "config_sum"),
    *("os_name", "os_version", "os_platform", "os_codename", "os_major", "os_minor", "os_uname", "os_arch", "os_build"),
)
"""Columns of the table in the order of the fields."""


@lru_cache(maxsize=4)
def columns_of(source: FromClause) -> Columns:
    """Every field of ``FIELDS``, of the table ``agents`` or of a relation with columns of the same names.

    Fields that many agents share sort by an expression, so that SQLite sorts: if it may use an index of the field it
    fetches the rows one by one in the order of that index, which takes seven times as long as reading them all.
    """
    shown = [Column(source.c[name]) for name in _FIELD_COLUMNS]
    columns = dict(zip(FIELDS.select or (), shown, strict=True))
    c = source.c
    apart = c.id != 0  # conditions on dates never match the manager
    return columns | {
        "id": Column(c.id, Kind.ID),
        "ip": Column(func.coalesce(c.ip, c.register_ip)),
        "status_code": Column(c.status_code, Kind.NUMBER),
        "version": Column(c.version, Kind.VERSION),
        "status": Column(c.connection_status, sort=(c.connection_status.concat(""),)),
        "node_name": Column(c.node_name, sort=(c.node_name.concat(""),)),
        "registerIP": Column(c.register_ip, sort=(c.register_ip.concat(""),)),
        "dateAdd": Column(c.date_add, Kind.DATE, guard=apart, render=calendar_date),
        "lastKeepAlive": Column(
            c.last_keepalive, Kind.DATE, sort=(c.last_keepalive + 0,), guard=apart, render=calendar_date
        ),
        "disconnection_time": Column(c.disconnection_time, Kind.NUMBER, render=date_if_any),
        "group": Column(c.group, Kind.MEMBERS, member=_in_group if source is agents else None),
        "os.version": Column(c.os_version, sort=(cast(c.os_major, Integer), cast(c.os_minor, Integer))),
    }


@lru_cache(maxsize=4)
def manager_row(node: str, *, host: str, system: System, created: int | None) -> Subquery:
    """Agent 000 (agent-link.md 0.4): the manager on ``node``, installed at ``created`` (seconds since 1970)."""
    values: dict[str, object] = {
        "id": 0,
        "name": host,
        "ip": "127.0.0.1",
        "register_ip": "127.0.0.1",
        "connection_status": "active",
        "status_code": 0,
        "version": f"secmon {MANAGER_VERSION}",
        "manager_host": host,
        "node_name": node,
        "date_add": created,
        "last_keepalive": NEVER_EXPIRES,
        "disconnection_time": 0,
        "group_config_status": "synced",
    }
    values |= {name: getattr(system, name) for name in _FIELD_COLUMNS if name.startswith("os_")}
    shown = (literal(values.get(name), agents.c[name].type).label(name) for name in _FIELD_COLUMNS)
    return select(*shown).subquery("manager")


def agents_and_manager(manager: Subquery) -> Subquery:
    """The table and the manager's row in one relation; slow to page through."""
    rows = select(*(agents.c[name] for name in _FIELD_COLUMNS)), select(manager)
    return rows[0].union_all(rows[1]).subquery("everyone")


# Conditions


def in_scope(scope: Scope) -> Condition:
    """Agents in ``scope``; all ids are one parameter of the statement."""
    numbers = [int(one) for one in scope.ids if is_agent_id(one)]

    def condition(columns: Columns) -> ColumnElement[bool]:
        number = columns["id"].expression
        return number.not_in(_json_ids(numbers)) if scope.complement else number.in_(_json_ids(numbers))

    return condition


def with_value(field: str, *values: str) -> Condition:
    """Those with one of ``values`` in ``field``, by the rules of filter parameters (conventions.md 5.8)."""
    return lambda columns: equals(columns[field], values)


def of_version(value: str) -> Condition:
    """``4.8.2`` and ``v4.8.2`` mean any product of that version, ``name 4.8.2`` the same as ``name v4.8.2``."""
    name, blank, number = value.rpartition(" ")
    if not number[:1].isdecimal() and number[:1].lower() != "v":
        return with_value("version", value)
    tagged = "v" + number.lower().removeprefix("v")
    if blank:
        return with_value("version", f"{name} {tagged}")

    def condition(columns: Columns) -> ColumnElement[bool]:
        version = columns["version"].expression
        return or_(folded(version) == folded(tagged), like(version, f"% {escaped(tagged)}"))

    return condition


def other_than(version: str) -> Condition:
    """Agents of a known version other than ``version``, with any product name."""

    def condition(columns: Columns) -> ColumnElement[bool]:
        shown = columns["version"].expression
        return and_(shown.is_not(None), ~of_version(version)(columns))

    return condition


def older_than(age: Age, now: datetime) -> Condition:
    """Agents without a keepalive for ``age``, or registered that long ago and never connected (conventions.md 5.8)."""
    edge = int(age.before(now).timestamp())

    def condition(columns: Columns) -> ColumnElement[bool]:
        never = columns["status"].expression == "never_connected"
        silent, added = columns["lastKeepAlive"].expression < edge, columns["dateAdd"].expression < edge
        return or_(and_(silent, ~never), and_(added, never))

    return condition


def without_group(columns: Columns) -> ColumnElement[bool]:
    """Those that were never assigned to a group, the manager aside."""
    return and_(columns["id"].expression != 0, columns["group"].expression.is_(None))


def is_agent_id(text: str) -> bool:
    """Whether ``text`` can be the id of an agent as clients see it: three digits, or more without zeros in front."""
    return text.isascii() and text.isdecimal() and 3 <= len(text) <= 18 and (len(text) == 3 or text[0] != "0")


def iso_offset(seconds: int) -> str:
    """``YYYY-MM-DDTHH:MM:SS+00:00`` (conventions.md 13.3)."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def calendar_date(seconds: float) -> str | None:
    """As :func:`iso_offset`, in a fourth of its time: a page has a thousand dates, of few days.

    None for a time outside the calendar: a wrong time in one row must not fail the request.
    """
    try:
        days, second = divmod(int(seconds), 86400)
        return f"{_day(days)}{_MINUTES[second // 60]}{_SECONDS[second % 60]}"
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def _day(number: int) -> str:
    """The date of day ``number`` since 1970. Raises OverflowError."""
    return (_FIRST_DAY + timedelta(days=number)).isoformat()


def date_if_any(seconds: int) -> str | None:
    return calendar_date(seconds) if seconds else None


def _in_group(name: str) -> ColumnElement[bool]:
    members = select(agent_groups.c.agent_id).where(folded(agent_groups.c.name) == folded(name))
    return agents.c.id.in_(members)


def _json_ids(numbers: Iterable[int]) -> Select[tuple[int]]:
    return select(func.json_each(msgspec.json.encode(sorted(numbers)).decode()).table_valued("value").c.value)


def own_system() -> System:
    """The system of this host, as an agent on it would report it (agent-link.md 6.3)."""
    return parse_system(_system_line())


def _system_line() -> str:
    host = platform.uname()
    uname = " |".join((host.system, host.node, host.release, host.version, host.machine))
    try:
        release = platform.freedesktop_os_release()
    except OSError:  # no such file on this system
        return uname
    version = release.get("VERSION") or release.get("VERSION_ID", "")
    return f"{uname} [{release['NAME']}|{release['ID']}{f': {version}' if version else ''}]"
