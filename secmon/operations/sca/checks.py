"""``GET /sca/{agent_id}/checks/{policy_id}`` (agent-data.md 5.7).

A check has any number of compliance and rule rows. ``q``, ``search`` and ``distinct`` look at every combination of them
with their check; pages and totals count checks, except with ``distinct``.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, and_, func, select

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.parameters import Alphanumeric
from secmon.common.outcome import Outcome, Result
from secmon.common.query import Query, Sort, sql_engine
from secmon.common.query.columns import Column
from secmon.common.query.shaping import Item
from secmon.inventory.schema import sca_check_compliance, sca_check_rules, sca_checks
from secmon.operations.inventory.columns import columns_of
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.node_reads import OwnRows, declare_node_read
from secmon.operations.inventory.reads import read_agent
from secmon.operations.inventory.shapes import AgentListing, partial_type
from secmon.operations.sca.parameters import READ, READ_ASSESSMENT, Symbols

_TEXTS = "title description rationale remediation file process directory registry command references result reason"


def _of_check(table: Table) -> ColumnElement[bool]:
    of_policy = and_(table.c.agent_id == sca_checks.c.agent_id, table.c.policy_id == sca_checks.c.policy_id)
    return and_(of_policy, table.c.check_id == sca_checks.c.id)


DETAILS: Mapping[str, Table] = {"compliance": sca_check_compliance, "rules": sca_check_rules}
"""Tables with any number of rows of a check."""
_DETAIL_COLUMNS = {
    f"{name}.{member}": table.c[member]
    for name, table, members in (
        ("compliance", sca_check_compliance, ("key", "value")),
        ("rules", sca_check_rules, ("type", "rule")),
    )
    for member in members
}
_FIRST = {
    name: Column(select(func.min(column)).where(_of_check(column.table)).scalar_subquery())
    for name, column in _DETAIL_COLUMNS.items()
}
"""What checks are sorted by, where that is a member of such rows."""

CHECKS = DataSet(
    name="sca-checks",
    source=select(sca_checks)
    .outerjoin(sca_check_compliance, _of_check(sca_check_compliance))
    .outerjoin(sca_check_rules, _of_check(sca_check_rules)),
    agent=sca_checks.c.agent_id,
    key=sca_checks.c.id,
    columns=columns_of(sca_checks, f"policy_id id {_TEXTS}")
    | {"condition": Column(sca_checks.c.condition, all_keyword=False)}
    | {name: Column(column) for name, column in _DETAIL_COLUMNS.items()},
    default_sort=Sort(("id",)),
    required=("policy_id", "id"),
    shows_agent=False,
)


class Compliance(Struct):
    """A requirement that a check covers."""

    key: str
    value: str


class CheckRule(Struct):
    """What a check looks at."""

    type: str
    rule: str


AssessmentCheck = partial_type(
    "AssessmentCheck",
    {
        **dict.fromkeys(CHECKS.columns, str),
        "id": int,
        "compliance": list[Compliance],
        "rules": list[CheckRule],
    },
)


class ChecksListing(AgentListing, frozen=True, kw_only=True):
    """An agent, a policy of it, the page to return, and what its checks must have."""

    policy_id: Alphanumeric
    title: Symbols | None = None
    description: Symbols | None = None
    rationale: Symbols | None = None
    remediation: Symbols | None = None
    command: str | None = None
    reason: Symbols | None = None
    file: str | None = None
    process: Alphanumeric | None = None
    directory: str | None = None
    registry: Alphanumeric | None = None
    references: str | None = None
    result: Alphanumeric | None = None
    condition: str | None = None


@operation(
    "GET", "/sca/{agent_id}/checks/{policy_id}", params=ChecksListing, place=Place.AGENT, item=AssessmentCheck,
    messages=READ, require=(READ_ASSESSMENT,),
)  # fmt: skip
async def read_checks(ctx: Context, params: ChecksListing) -> Result:
    """Checks of a policy on an agent's host, and their results."""
    return await read_agent(ctx, params, CHECKS)


def _read(ctx: Context, params: OwnRows, data_set: DataSet) -> Outcome:
    query, now, filters = read_query(params, data_set.fields), ctx.node.clock.now(), dict(params.filters)
    own = [sca_checks.c.agent_id.in_(params.agents), sca_checks.c.policy_id == filters.pop("policy_id")]
    combinations = data_set.source.where(*own, *data_set.conditions(filters))
    columns, rows, asked = data_set.columns, combinations, query
    if not query.distinct:
        found = combinations.where(*sql_engine.where(query, columns, now))
        ids = found.with_only_columns(sca_checks.c.id, maintain_column_froms=True)
        columns, rows = {**columns, **_FIRST}, select(sca_checks).where(*own, sca_checks.c.id.in_(ids))
        plain = tuple(name for name in query.select or columns if name not in _DETAIL_COLUMNS)
        asked = replace(query, q=None, search=None, select=plain)
    statements = sql_engine.apply(
        rows, asked, columns, data_set.fields, now=now, default_sort=data_set.default_sort, tie=(data_set.key,)
    )
    with ctx.node.inventory.read() as connection:
        page = sql_engine.fetch(connection, statements, columns)
        if query.distinct:
            return Outcome(items=[_flat(item) for item in page.items], total=page.total)
        _add_details(connection, page.items, query, own)
    return Outcome(items=list(page.items), total=page.total)


declare_node_read(CHECKS, _read)


def _flat(item: Item) -> Item:
    flat: Item = {}
    for name, value in item.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{member}": each for member, each in value.items()}
        else:
            flat[name] = value
    return flat


def _add_details(
    connection: Connection, items: Sequence[Item], query: Query, own: Sequence[ColumnElement[bool]]
) -> None:
    """Add the selected members of the compliance and rule rows, unless no item has any of that kind."""
    ids = [item["id"] for item in items]
    for name, table in DETAILS.items():
        chosen = [one for one in query.select or _DETAIL_COLUMNS if one.startswith(f"{name}.")]
        if not chosen:
            continue
        columns = [_DETAIL_COLUMNS[one].label(one.partition(".")[2]) for one in chosen]
        question = select(sca_checks.c.id, *columns).join(table, _of_check(table)).where(*own, sca_checks.c.id.in_(ids))
        found: dict[object, list[Item]] = defaultdict(list)
        for row in connection.execute(question.order_by(*table.primary_key.columns)).mappings():
            found[row["id"]].append({one.name: row[one.name] for one in columns})
        if found:
            for item in items:
                item[name] = found.get(item["id"], [])
