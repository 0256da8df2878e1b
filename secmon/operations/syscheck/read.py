"""``GET /syscheck/{agent_id}`` and its last scan (agent-data.md 3.7)."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import select

from secmon.agents.registry.agent_fields import date_if_any
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, text_format
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Sort
from secmon.common.query.columns import Column
from secmon.inventory.schema import fim_entries, fim_scans
from secmon.operations.agents.commands import OwnAgents, TargetAgent
from secmon.operations.internal import INTERNAL
from secmon.operations.inventory.columns import columns_of, epoch_time
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.last_scan import LastScan, last_scan, read_last_scan
from secmon.operations.inventory.node_reads import Synchronization, declare_node_read
from secmon.operations.inventory.reads import read_agent
from secmon.operations.inventory.shapes import AgentListing, item_type
from secmon.security.rbac.authorization import Require

COMPONENTS = ("fim_file", "fim_registry_key", "fim_registry_value", "fim_registry", "syscheck")
READ_FILES = Require("syscheck:read", "agent:id", param="agent_id")
READ = Messages(all="The results of the integrity scan were read", none="No results were read")
LAST_SCAN_OWN = "GET /internal/own-inventory/syscheck/last-scan"

_LENGTHS = (32, 40, 56, 64, 96, 128)
Hash = Annotated[str, text_format("hash", "|".join(f"[0-9a-fA-F]{{{length}}}" for length in _LENGTHS))]


Permissions = str | dict[str, Any]


def _permissions(stored: str) -> Permissions:
    """Permissions on Windows are an object; others remain text, also digits, which are JSON too."""
    try:
        return msgspec.json.decode(stored, type=dict[str, Any]) if stored.startswith("{") else stored
    except (msgspec.DecodeError, RecursionError):
        return stored


_COLUMNS = columns_of(
    fim_entries,
    "file type changes size uid gid uname gname md5 sha1 sha256 inode attributes arch value.name value.type",
) | {"perm": Column(fim_entries.c.perm, render=_permissions)}
_TIMES = {"date": epoch_time(fim_entries.c.date), "mtime": epoch_time(fim_entries.c.mtime)}
_HASHES = ("md5", "sha1", "sha256")
_FILTERS = {name: (column,) for name, column in _COLUMNS.items()} | {"hash": [_COLUMNS[name] for name in _HASHES]}


def _data_set(name: str, columns: dict[str, Column]) -> DataSet:
    return DataSet(
        name=name,
        source=select(fim_entries),
        agent=fim_entries.c.agent_id,
        key=fim_entries.c.type + fim_entries.c.full_path,
        columns=columns,
        default_sort=Sort(("mtime",)),
        required=("file",),
        filters=_FILTERS,
        components=COMPONENTS,
        shows_agent=False,
    )


ENTRIES = _data_set("syscheck", _COLUMNS | _TIMES)
SUMMARY = _data_set("syscheck-summary", {"file": _COLUMNS["file"], **_TIMES})

for _each in (ENTRIES, SUMMARY):
    declare_node_read(_each)


IntegrityEntry = item_type("IntegrityEntry", ENTRIES, perm=Permissions)


class IntegrityListing(AgentListing, frozen=True, kw_only=True):
    """An agent, the page to return, and what its entries must have."""

    file: str | None = None
    arch: Literal["[x32]", "[x64]"] | None = None
    value_name: Alphanumeric | None = msgspec.field(name="value.name", default=None)
    value_type: Alphanumeric | None = msgspec.field(name="value.type", default=None)
    type: Literal["file", "registry_key", "registry_value"] | None = None
    summary: Annotated[bool, Meta(description="Only the fields `file`, `date` and `mtime`.")] = False
    md5: Hash | None = None
    sha1: Hash | None = None
    sha256: Hash | None = None
    hash: Annotated[Hash | None, Meta(description="Of any of the three kinds.")] = None


@operation(
    "GET", "/syscheck/{agent_id}", params=IntegrityListing, place=Place.AGENT, item=IntegrityEntry, messages=READ,
    require=(READ_FILES,), extra={"synchronization": Synchronization},
)  # fmt: skip
async def read_entries(ctx: Context, params: IntegrityListing) -> Result:
    """Files and registry entries whose integrity an agent watches."""
    return await read_agent(ctx, params, SUMMARY if params.summary else ENTRIES, unknown=2007)


@operation(
    "GET", "/syscheck/{agent_id}/last_scan", params=TargetAgent, place=Place.AGENT, item=LastScan, messages=READ,
    require=(READ_FILES,),
)  # fmt: skip
async def read_last_integrity_scan(ctx: Context, params: TargetAgent) -> Result:
    """When an agent's last integrity scan began and ended."""
    return await read_last_scan(ctx, params.agent_id, LAST_SCAN_OWN)


@operation(
    "GET", "/internal/own-inventory/syscheck/last-scan", params=OwnAgents, open_to_all=True, catalogue=INTERNAL,
    item=LastScan,
)  # fmt: skip
async def read_own_last_scan(ctx: Context, params: OwnAgents) -> Outcome:
    """The last integrity scan of an agent of this node."""
    [agent] = params.agents
    question = select(fim_scans.c.start_scan, fim_scans.c.end_scan).where(fim_scans.c.agent_id == agent)

    def read() -> Outcome:
        with ctx.node.inventory.read() as connection:
            start, end = connection.execute(question).one_or_none() or (None, None)
        return last_scan(start, end, date_if_any)

    return await asyncio.to_thread(read)
