"""``/agents``: adding and removing them, and their keys (agent-link.md 3.3 and 3.4)."""

import asyncio
import ipaddress
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct, structs
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.names import ANY, MAX_ID, normal_address, padded
from secmon.agents.registry import registry
from secmon.agents.registry.agent_fields import FIELDS, MANAGER_ID, Condition, in_scope, is_agent_id
from secmon.agents.registry.entries import Entry
from secmon.agents.registry.queries import read_ids, unknown_ids
from secmon.agents.registry.registry import New
from secmon.agents.registry.replacement import NEVER, RequestForce
from secmon.agents.registry.store import AgentStore
from secmon.agents.wire.keys import AgentKey, export_key
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, authorizer, read_query
from secmon.cluster.parameters import Common, Names, Q, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.sqlite.faults import storage_error, storage_reason
from secmon.config.auth import Force
from secmon.config.values import seconds
from secmon.operations.agents.listing import read_agents, scope_conditions, scope_of
from secmon.operations.agents.parameters import (
    AgentFilters,
    AgentId,
    AgentIdOrAll,
    OlderThan,
    Timeframe,
    conditions,
)
from secmon.security.rbac.authorization import Require
from secmon.security.rbac.evaluate import Scope

log = logging.getLogger("secmon.agents")

MAX_NAME, MIN_KEY, MAX_KEY = 128, 64, 64
_BATCH = 500
"""Agents removed in one transaction: enrolments and states are written in between."""

Address = Annotated[str, text_format("address", r"[\w,\-.+\s:/]+"), Meta(description="Address, network or `any`.")]
Key = Annotated[str, text_format("agent_key", "[a-zA-Z0-9]+"), Meta(max_length=MAX_KEY)]
GivenStatus = Literal["all", "active", "pending", "never_connected", "disconnected"]
CREATE = Require("agent:create")
DELETE = Require("agent:delete", "agent:id", mode="restrict")
_NO_FILTERS = frozenset({*Common.__struct_fields__, "agents_list", "purge"})


class AgentSelector(Protocol):
    """The ids, in their order, of agents that a request describes."""

    def __call__(self, connection: Connection, *, where: Sequence[Condition]) -> list[int]: ...


class Disconnected(Struct, frozen=True):
    """How long an agent must have been disconnected to be replaced."""

    enabled: bool = True
    value: Timeframe = "1h"


class ForceRule(Struct, frozen=True):
    """Which agents that are in the way may be replaced."""

    enabled: bool = False
    disconnected_time: Disconnected = Disconnected()
    after_registration_time: Timeframe = "1h"


NewId = Annotated[
    str,
    text_format("numbers", "[0-9]+"),
    Meta(min_length=3, max_length=64, description=f"At most {MAX_ID}."),
]


class ForceInsert(ForceRule, frozen=True):
    """Which agents that are in the way may be replaced."""

    enabled: bool = True


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent to add."""

    name: Names
    ip: Address = ANY
    force: ForceRule = ForceRule()


class InsertedAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent to add, with its id and key if it has any."""

    name: Names
    ip: Address = ANY
    id: NewId | None = None
    key: Key | None = None
    force: ForceInsert = ForceInsert()

    def __post_init__(self) -> None:
        if self.id is not None and int(self.id) > MAX_ID:
            raise ValueError(f"the highest id of an agent is {MAX_ID}")


class AgentIdKey(Struct):
    """An agent's id, and its key in the form that is imported on the agent."""

    id: str
    key: str


class PostAgent(Common, frozen=True, kw_only=True):
    """The agent to add."""

    body: NewAgent


class PostInsert(Common, frozen=True, kw_only=True):
    """The agent to add."""

    body: InsertedAgent


class PostQuick(Common, frozen=True, kw_only=True):
    """The agent to add."""

    agent_name: Annotated[Names, Meta(max_length=MAX_NAME)]


class AgentPath(Common, frozen=True, kw_only=True):
    """Path of an operation on one agent."""

    agent_id: AgentId


class DeleteAgents(AgentFilters, frozen=True, kw_only=True):
    """Query parameters of DELETE /agents."""

    agents_list: list[AgentIdOrAll]
    status: Annotated[list[GivenStatus], Meta(min_length=1, description="Only agents of one of these statuses.")]
    purge: Annotated[bool, Meta(description="Leave no line in the key file.")] = False
    older_than: OlderThan = "7d"
    q: Q = None


@operation("POST", "/agents", params=PostAgent, place=Place.MASTER, require=(CREATE,), data=AgentIdKey)
async def add_agent(ctx: Context, params: PostAgent) -> Plain:
    """Add an agent with a new id and key."""
    body = params.body
    return await _add(ctx, _new(body.name, body.ip), _force(ctx, body.force))


@operation("POST", "/agents/insert", params=PostInsert, place=Place.MASTER, require=(CREATE,), data=AgentIdKey)
async def insert_agent(ctx: Context, params: PostInsert) -> Plain:
    """Add an agent with an id and a key that it has already."""
    body = params.body
    if body.key is not None and len(body.key) < MIN_KEY:
        raise SecmonError(1709)
    agent = None if body.id is None else int(body.id)
    return await _add(ctx, _new(body.name, body.ip, agent, body.key), _force(ctx, body.force))


@operation("POST", "/agents/insert/quick", params=PostQuick, place=Place.MASTER, require=(CREATE,), data=AgentIdKey)
async def add_agent_quickly(ctx: Context, params: PostQuick) -> Plain:
    """Add an agent of which nothing but the name is known."""
    return await _add(ctx, _new(params.agent_name), NEVER)


@operation(
    "GET", "/agents/{agent_id}/key", params=AgentPath, place=Place.MASTER, item=AgentIdKey,
    require=(Require("agent:read", "agent:id", param="agent_id"),),
    messages=Messages(all="The key was read", none="The key was not read"),
)  # fmt: skip
async def read_key(ctx: Context, params: AgentPath) -> Outcome:
    """The key of an agent, to be imported there."""
    agent, outcome = params.agent_id, Outcome()
    entry = await read_agents(ctx, lambda store: registry.find(store, int(agent))) if is_agent_id(agent) else None
    if entry is not None:
        outcome.items.append(_id_and_key(entry))
    else:
        outcome.fail(SecmonError(1703 if agent == MANAGER_ID else 1701), agent)
    return outcome


@operation(
    "DELETE", "/agents", params=DeleteAgents, place=Place.MASTER, item=str,
    require=(structs.replace(DELETE, param="agents_list", mode="each"),),
    messages=Messages(
        all="The agents were removed", some="Some agents were not removed", none="No agent was removed"
    ),
)  # fmt: skip
async def remove_agents(ctx: Context, params: DeleteAgents) -> Outcome:
    """Remove agents that meet all conditions; their ids are not used again."""
    grant, outcome = ctx.grant("agent:id"), Outcome()
    now = ctx.node.clock.now()
    status = None if "all" in params.status else params.status
    where = [*conditions(params, now, status=status), *scope_conditions(scope_of(grant))]
    chosen = partial(read_ids, now=now, q=read_query(params, FIELDS).q)
    purge = params.purge or ctx.node.registrar.settings.purge
    gone = await asyncio.to_thread(_remove, ctx.node.agents, chosen, where, outcome, purge=purge)
    outcome.items.extend(padded(agent) for agent in gone)
    if grant.explicit:
        await _fail_remaining(ctx, outcome, grant.ids, params)
    if gone:
        log.info("%s removed %d agents: %s", ctx.call.identity.user, len(gone), ", ".join(outcome.items[:50]))
    return outcome


def _new(name: str, address: str = ANY, agent: int | None = None, key: str | None = None) -> New:
    """The agent for the registry. Raises 1738 for an invalid name and 1706 for an invalid address."""
    if len(name) > MAX_NAME:
        raise SecmonError(1738)
    text = address.lower()
    try:
        if "/" in text:
            ipaddress.ip_network(text)  # a network with host bits is refused
        return New(name=name, address=normal_address(text), id=agent, key=key)
    except ValueError:
        raise SecmonError(1706, address) from None


def _force(ctx: Context, rule: ForceRule) -> Force:
    """The checks of the request; beyond the default ones the caller needs the right to delete the replaced agent."""
    return RequestForce(
        enabled=rule.enabled,
        disconnected_time=seconds(rule.disconnected_time.value) if rule.disconnected_time.enabled else None,
        after_registration_time=seconds(rule.after_registration_time),
        deletable=scope_of(authorizer(ctx.node, ctx.call).check(DELETE)),
    )


async def _add(ctx: Context, new: New, force: Force) -> Plain:
    entry = (await ctx.node.registrar.add(new, force=force)).entry
    log.info("%s added agent %s (%s)", ctx.call.identity.user, entry.padded, entry.name)
    return Plain(data=_id_and_key(entry))


def _id_and_key(entry: Entry) -> dict[str, str]:
    key = AgentKey(entry.padded, entry.name, entry.register_ip, entry.internal_key)
    return {"id": entry.padded, "key": export_key(key)}


def _remove(
    store: AgentStore, chosen: AgentSelector, where: Sequence[Condition], outcome: Outcome, *, purge: bool
) -> list[int]:
    """Remove the agents that are ``chosen`` and meet ``where`` when they are removed; their ids in order.

    Raises SQLAlchemyError when none can be removed; when the store fails after some were, the rest is failed.
    """
    with store.read() as connection:
        ids = [padded(agent) for agent in chosen(connection, where=where)]
    gone: list[int] = []
    for start in range(0, len(ids), _BATCH):
        these = in_scope(Scope(frozenset(ids[start : start + _BATCH])))
        try:
            with store.write() as connection:
                still = chosen(connection, where=[*where, these])
                removed = registry.remove(connection, still, purge=purge)
        except SQLAlchemyError as error:
            if not gone:
                raise
            log.error("%d agents could not be removed: %s", len(ids) - start, storage_reason(error))
            outcome.fail(storage_error(error) or SecmonError(1000), *ids[start:])
            break
        gone += [entry.id for entry in removed]
    return gone


async def _fail_remaining(ctx: Context, outcome: Outcome, named: Sequence[str], params: DeleteAgents) -> None:
    """Fail those of the ``named`` agents that were not removed."""
    reported = {*outcome.items, *(agent for failure in outcome.failures for agent in failure.ids)}
    left = [agent for agent in named if agent not in reported]
    unknown = set(await read_agents(ctx, lambda store: unknown_ids(store, left)))
    filters = ", ".join(f"{name}={value}" for name, value in _filters(params))
    for agent in left:
        if agent == MANAGER_ID:
            outcome.fail(SecmonError(1703), agent)
        elif agent in unknown:
            outcome.fail(SecmonError(1701), agent)
        else:
            outcome.fail(SecmonError(1731, filters), agent)


def _filters(params: DeleteAgents) -> Iterable[tuple[str, str]]:
    """The conditions as the request gave them."""
    for field in structs.fields(DeleteAgents):
        value = getattr(params, field.name)
        if field.name not in _NO_FILTERS and value is not None:
            yield field.encode_name, ",".join(value) if isinstance(value, list) else str(value)
