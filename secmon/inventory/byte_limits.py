"""How many bytes an agent may have in the store, so that none fills the disk."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, Select, Table, Text, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.sqlite import dialect

from secmon.inventory.components import SYNCHRONIZED
from secmon.inventory.row_limits import NEAR, Question, key_of, same_key
from secmon.inventory.schema import sca_check_compliance, sca_check_rules, sca_checks, sca_policies, sca_scans

MAX_BYTES = 256 << 20
"""Of an agent, unless configured otherwise: 200,000 files and 13 full tables of ordinary rows have less."""
LIMITED: Collection[Table] = frozenset(
    {*SYNCHRONIZED, sca_policies, sca_scans, sca_checks, sca_check_rules, sca_check_compliance}
)
"""The tables whose rows count; those of the others are few and short."""

_ROW_BYTES = 100
"""Of a row besides its texts, about."""
_ZERO: ColumnElement[int] = literal_column("0")


@dataclass(slots=True)
class _Sum:
    """Bytes of an agent: as many, or when not ``exact`` at most as many."""

    size: int
    exact: bool


def size_of(values: Iterable[Any]) -> int:
    """Bytes of a row with these values."""
    text = "".join([value for value in values if value.__class__ is str])
    return _ROW_BYTES + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))


class ByteLimits:
    """Sums up the bytes of agents. Below the limit this costs the store nothing: replaced rows are summed up as new
    ones, deleted ones are not subtracted, and all are summed up again once the limit seems to be reached."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.limit = limit
        self._sums: dict[int, _Sum] = {}

    def growth(
        self, table: Table, row: Mapping[str, Any], size: int, question: Question, total: Callable[[int], int]
    ) -> int | None:
        """By how many bytes at most the agent grows with ``row`` of ``size`` bytes; None: it would have too many.

        A row that replaces a larger one is admitted whatever the limit is. ``total``: the bytes of an agent, after the
        rows saved.
        """
        agent = row["agent_id"]
        known = self._sums.get(agent)
        if known is None or (not known.exact and known.size + size > self.limit):
            found = total(agent)
            known = self._sums[agent] = _Sum(found, exact=found + size >= NEAR * self.limit)
        growth = size - (question(table, _size_of_same(table), key_of(table, row)) or 0) if known.exact else size
        return growth if growth <= 0 or known.size + growth <= self.limit else None

    def grown(self, agent: int, growth: int) -> None:
        """A row of ``agent`` is saved that has the :meth:`growth`."""
        known = self._sums[agent]
        known.size += growth
        if known.exact:
            known.exact = known.size >= NEAR * self.limit

    def freed_by(self, table: Table, agent: int) -> Select[Any] | None:
        """The bytes of all rows of the agent (parameter ``agent``) in ``table``, if deletions are to be subtracted."""
        known = self._sums.get(agent)
        return _sum(table) if known is not None and known.exact else None

    def forget(self, *, exact_only: bool = False) -> None:
        """Sum up again: a transaction was rolled back, or (``exact_only``) another process has deleted rows."""
        self._sums = {agent: known for agent, known in self._sums.items() if exact_only and not known.exact}


def _size(table: Table) -> Any:
    texts = [column for column in table.columns if isinstance(column.type, Text)]
    lengths = (func.coalesce(func.length(cast(column, LargeBinary)), _ZERO) for column in texts)
    return sum(lengths, literal_column(str(_ROW_BYTES)))


@cache
def _sum(table: Table) -> Select[Any]:
    return select(func.coalesce(func.sum(_size(table)), _ZERO)).where(table.c.agent_id == bindparam("agent"))


@cache
def _size_of_same(table: Table) -> Select[Any]:
    return select(_size(table)).where(same_key(table))


@cache
def total_statement() -> str:
    """The bytes of an agent, whose number is each of the parameters, one for each of the tables LIMITED.

    Compiled once: SQLAlchemy takes longer to look so large a statement up than SQLite to answer it.
    """
    sums = (_sum(table).scalar_subquery() for table in LIMITED)
    return str(select(reduce(add, sums)).compile(dialect=dialect()))
