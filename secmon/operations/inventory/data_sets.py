"""Data sets: what the API shows of a table of the inventory, declared once for all operations that read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Select, false, or_

from secmon.common.query import Fields, Query, Sort, sql_engine
from secmon.common.query.columns import Column, Kind
from secmon.operations.inventory.columns import among

AGENT_ID, ROW_KEY = "agent_id", "row_key"
"""Columns of every data set besides its fields: the agent, and what is unique to each of its rows."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Rows of agents, as the API shows them.

    ``name``: as in paths. ``source``: all rows of all agents; ``agent`` and ``key`` are columns of it, of which
    ``key`` is unique for an agent. ``columns``: the fields. ``required``: fields that are returned whatever
    ``select`` says, except with ``distinct``. ``filters``: the columns of filters that are no fields; one of them
    must have the value. ``components``: names on the wire of the synchronizations that keep the rows (agent-data.md
    2.1). ``shows_agent``: items have the agent's id. ``nested``: prefixes that are objects in every item; others are
    where an item has two fields of the prefix, or more; None: all are (agent-data.md 4.8).
    """

    name: str
    source: Select[Any]
    agent: ColumnElement[Any]
    key: ColumnElement[Any]
    columns: Mapping[str, Column]
    default_sort: Sort
    required: tuple[str, ...] = ()
    filters: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    shows_agent: bool = True
    nested: frozenset[str] | None = None

    @cached_property
    def fields(self) -> Fields:
        agent = (AGENT_ID,) if self.shows_agent else ()
        dates = tuple(name for name, column in self.columns.items() if column.kind is Kind.DATE)
        names = tuple(self.columns)
        return Fields(engine="sql", select=names, required=(*agent, *self.required), dates=dates, numeric=(AGENT_ID,))

    @cached_property
    def all_columns(self) -> Mapping[str, Column]:
        """The fields, the agent, and the key."""
        return {AGENT_ID: Column(self.agent, Kind.ID), ROW_KEY: Column(self.key), **self.columns}

    def order(self, query: Query) -> Sort:
        """The order of the rows of several agents: no two are equal in it, so that nodes merge them as one would."""
        asked = query.sort
        if asked is None:
            return Sort((AGENT_ID, *self.default_sort.fields, ROW_KEY), self.default_sort.descending)
        return Sort((*asked.fields, AGENT_ID, ROW_KEY), asked.descending)

    def of_agents(self, agents: Sequence[int]) -> ColumnElement[bool]:
        """Whether a row is one of these agents', however many there are."""
        return among(self.agent, agents)

    def conditions(self, filters: Mapping[str, str]) -> list[ColumnElement[bool]]:
        """What rows must meet; the value ``all`` is no filter, except for columns that hold it."""
        found = []
        for name, value in filters.items():
            columns = self.filters.get(name) or [self.columns[name]]
            if value != "all" or not columns[0].all_keyword:
                found.append(or_(false(), *(sql_engine.equals(column, [value]) for column in columns)))
        return found
