"""How many rows an agent may have in a table and have compared, so that none takes the store for itself."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, func, literal, select

from secmon.inventory.schema import fim_entries

MAX_FILES = 200_000
"""Rows of an agent in ``fim_entries``, unless configured otherwise: what agents report at most by default."""
MAX_ROWS = 50_000
"""Rows of an agent in each other table, unless configured otherwise."""
MAX_COMPARED = 2_000_000
"""Rows of an agent that are read in a minute to answer its checks. A table of 100,000 rows of which every one differs,
checked at the agents' rate of 10 messages a second, needs half of it."""
_MINUTE_SECONDS = 60
_KNOWN_COUNTS = 100_000
"""Counts that are kept in memory; each is of an agent and a table."""
NEAR = 0.9
"""Share of the limit below which rows are no longer looked up one by one."""

Question = Callable[[Table, Select[Any], Mapping[str, object]], Any]
"""Runs a question on a table, after the rows saved in it: the first column of the first row, or None."""


@dataclass(slots=True)
class _Count:
    """Rows of an agent in a table: as many, or when not ``exact`` at most as many."""

    rows: int
    exact: bool = False


class RowLimits:
    """Counts rows. Below a limit this costs no question to the store: replaced rows are counted as new ones, and all
    are counted again once the limit seems to be reached."""

    def __init__(self, files: int = MAX_FILES, others: int = MAX_ROWS) -> None:
        """``files``: rows of an agent in ``fim_entries``; ``others``: in each other table."""
        self._files, self._others = files, others
        self._counts: dict[tuple[Table, int], _Count] = {}
        self._compared: Counter[int] = Counter()
        self._minute = 0

    def limit(self, table: Table) -> int:
        return self._files if table is fim_entries else self._others

    def admits(self, table: Table, row: Mapping[str, Any], question: Question) -> bool:
        """Whether ``row`` may be saved: it replaces one, or the agent has less rows than it may. It counts as saved."""
        agent, limit = row["agent_id"], self.limit(table)
        count = self._counts.get((table, agent))
        if count is None:
            count = self._new_count(table, agent, question)
        if count.rows >= limit and not count.exact:
            count.rows, count.exact = question(table, _number(table), {"agent": agent}), True
        if count.exact and question(table, _same(table), key_of(table, row)):
            return True
        if count.rows >= limit:
            return False
        count.rows += 1
        count.exact = count.exact and count.rows >= NEAR * limit
        return True

    def deleted(self, table: Table, agent: int, rows: int) -> None:
        """``rows`` of ``agent`` were deleted."""
        if count := self._counts.get((table, agent)):
            count.rows -= rows

    def may_compare(self, agent: int, time: float) -> bool:
        """Whether rows may be read for a check that came at ``time``, in seconds since 1970."""
        minute = int(time // _MINUTE_SECONDS)
        if minute != self._minute:
            self._minute = minute
            self._compared.clear()
        return self._compared[agent] < MAX_COMPARED

    def compared(self, agent: int, rows: int) -> None:
        """``rows`` were read for a check."""
        self._compared[agent] += rows

    def forget(self, *, exact_only: bool = False) -> None:
        """Count again: a transaction was rolled back, or (``exact_only``) another process has deleted rows."""
        self._counts = {key: count for key, count in self._counts.items() if exact_only and not count.exact}

    def _new_count(self, table: Table, agent: int, question: Question) -> _Count:
        if len(self._counts) >= _KNOWN_COUNTS:
            self._counts.clear()
        found = self._counts[table, agent] = _Count(question(table, _number(table), {"agent": agent}))
        return found


@cache
def _number(table: Table) -> Select[Any]:
    return select(func.count()).select_from(table).where(table.c.agent_id == bindparam("agent"))


@cache
def _same(table: Table) -> Select[Any]:
    return select(literal(1)).where(same_key(table))


def same_key(table: Table) -> ColumnElement[bool]:
    """The condition of the row with the key in the parameters :func:`key_of`."""
    return and_(*(column == bindparam(f"key_{column.name}") for column in table.primary_key.columns))


def key_of(table: Table, row: Mapping[str, Any]) -> Mapping[str, object]:
    """Parameters for :func:`same_key`."""
    return {f"key_{column.name}": row[column.name] for column in table.primary_key.columns}
