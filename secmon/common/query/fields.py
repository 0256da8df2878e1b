"""What a collection lets its clients sort, select and ask for (conventions.md 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from secmon.common.query.ast import Op


@dataclass(frozen=True, slots=True)
class Fields:
    """Declaration of a collection.

    engine: which semantics apply (conventions.md 5). With ``sql``, ``select`` is the whole list of fields: the one
    for ``q`` and, unless ``sort`` says otherwise, for ``sort``.
    select, sort: allowed names; None in the list engine means "whatever the items hold".
    required: returned whatever ``select`` says, except with ``distinct``.
    dates: fields that hold dates (SQL engine; the list engine knows a date by its form).
    search_in: top-level fields that ``search`` looks in; None means all (list engine; in SQL, the columns say it).
    operators: fields that take only these operators; any other is 1409.
    numeric: text fields holding zero-padded numbers (agent ids), which sort as numbers.
    """

    engine: Literal["list", "sql"]
    select: tuple[str, ...] | None = None
    sort: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    search_in: tuple[str, ...] | None = None
    operators: Mapping[str, frozenset[Op]] = field(default_factory=dict)
    numeric: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.engine == "sql" and self.select is None:
            raise ValueError("the SQL engine needs its list of fields")

    @property
    def sortable(self) -> tuple[str, ...] | None:
        """Names that ``sort`` takes; None: the keys of the items."""
        return self.select if self.sort is None and self.engine == "sql" else self.sort
