"""Validation of reported states of agents. One invalid row would break every answer that contains it."""

from typing import Any, Final, NamedTuple, get_args

import msgspec
from sqlalchemy import Integer

from secmon.agents.registry.schema import STATE, ConfigStatus, Status, agents
from secmon.agents.state_updates import MAX_STATE_TEXT, RESET
from secmon.common.errors import SecmonError
from secmon.common.sqlite.schema import default_of

REPORTED: Final = tuple(name for name in STATE if name != "node_name")
"""The reported columns. The reporting node is known from its certificate."""

LEAST_VALUES = 20
"""Values that workers of all releases send. Later ones are appended to ``REPORTED``."""

MAX_ID = 2**32 - 1
MAX_LABELS = 8 * 65_536
"""Characters of the labels, which are JSON: a control character takes six."""

_TIMES = ("last_keepalive", "disconnection_time")
_REQUIRED = frozenset(name for name in REPORTED if not agents.c[name].nullable)
_NUMBERS = frozenset(name for name in REPORTED if isinstance(agents.c[name].type, Integer))
_ALLOWED: dict[str, frozenset[object]] = {
    "connection_status": frozenset(get_args(Status)),
    "group_config_status": frozenset(get_args(ConfigStatus)),
    "status_code": frozenset(range(RESET + 1)),
}


class ReportClock(NamedTuple):
    """Conversion of a report's times: ``ahead`` seconds are subtracted; the result must not be after ``latest``."""

    latest: int
    ahead: int = 0

    def read(self, moment: int) -> int | None:
        """``moment`` by this node's clock; None for an impossible one. 0 means never and stays."""
        if moment == 0:
            return 0
        ours = moment - self.ahead
        return ours if 0 < ours <= self.latest else None


def checked_row(agent: int, values: tuple[str | int | None, ...], times: ReportClock) -> dict[str, Any]:
    """The reported values, which are in the order of ``REPORTED``, by name and with times of this node's clock.

    Raises SecmonError 3045 naming the agent and the invalid values.
    """
    if not 0 < agent <= MAX_ID:
        raise SecmonError(3045, "the id of an agent is out of range")
    if len(values) < LEAST_VALUES:
        raise SecmonError(3045, f"the state of agent {agent} has {len(values)} values, not {LEAST_VALUES}")
    row: dict[str, Any] = dict(zip(REPORTED, values, strict=False))  # a newer worker sends more
    row |= {name: default_of(agents.c[name]) for name in REPORTED[len(values) :]}
    wrong = [name for name, value in row.items() if not _is_valid(name, value)]
    for name in _TIMES:
        if name not in wrong and row[name] is not None:
            row[name] = times.read(row[name])
            wrong += [name] if row[name] is None else []
    if wrong:
        raise SecmonError(3045, f"the state of agent {agent} has invalid values: {', '.join(wrong)}")
    return row


def _is_valid(name: str, value: str | int | None) -> bool:
    if value is None:
        return name not in _REQUIRED
    if isinstance(value, int) != (name in _NUMBERS):
        return False
    if name in _ALLOWED:
        return value in _ALLOWED[name]
    if isinstance(value, str):
        return _are_labels(value) if name == "labels" else len(value) <= MAX_STATE_TEXT
    return True


def _are_labels(text: str) -> bool:
    if len(text) > MAX_LABELS:
        return False
    try:
        msgspec.json.decode(text, type=list[tuple[str, str]])
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
