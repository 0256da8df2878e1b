"""All writes to the registry of agents. On the master only; ``replica`` copies the result to the other nodes.

The functions take a connection of ``AgentStore.write()``: the rows that they check cannot change meanwhile, and several
calls can share one durable commit. Each call that changes rows makes a revision.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from secrets import token_hex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam, select, update

from secmon.agents.names import ANY, DEFAULT_GROUP, MAX_GROUPS, MAX_ID, group_hash, join_groups, padded
from secmon.agents.registry.conflicts import conflicts
from secmon.agents.registry.entries import (
    ENTRY,
    TOMBSTONE,
    Entry,
    Tombstone,
    change,
    delete_entries,
    delete_tombstones,
    insert_entries,
    insert_tombstones,
    pick,
    tombstones,
    write_groups,
)
from secmon.agents.registry.ids import reserve, take_id
from secmon.agents.registry.replacement import NEVER, may_replace, needs_deletion
from secmon.agents.registry.schema import agent_groups, agents, removed
from secmon.agents.registry.store import number, put
from secmon.common.errors import SecmonError
from secmon.config.auth import Force


class New(Struct, frozen=True, kw_only=True):
    """An agent to add; every text in the form that ``names`` and ``enrol`` check and make.

    Without ``id`` it gets the next one, after the highest the lowest free one; without ``key`` a random one.
    ``key_hash``: the hash of the key that the new agent has already. ``groups`` exist, lowest priority first; none: it
    gets its first group when it connects. ``added``: time of registration in seconds since 1970, if not now.
    """

    name: str
    address: str = ANY
    groups: tuple[str, ...] = ()
    id: int | None = None
    key: str | None = None
    key_hash: str | None = None
    added: int | None = None


class Added(Struct, frozen=True):
    """The agent that was added, and the reasons for which others were replaced by it."""

    entry: Entry
    replaced: tuple[str, ...] = ()


def add(
    connection: Connection,
    new: New,
    *,
    now: int,
    force: Force = NEVER,
    purge: bool = False,
    host_name: str | None = None,
) -> Added:
    """Add an agent; ``now`` in seconds since 1970, ``host_name`` that of the manager, which no agent may have.

    Conflicting agents are removed if ``force`` permits, else nothing is changed. Raises 1708 (id), 1706 (address), 1705
    (name), 1737 (too many groups), 1725 when ids are used up, 4000 for a conflicting agent that the request may not
    delete.
    """
    if len(set(new.groups)) > MAX_GROUPS:
        raise SecmonError(1737)
    replaced: dict[int, str] = {}
    for code, holder in conflicts(connection, agent=new.id, address=new.address, name=new.name):
        verdict = may_replace(holder, force, now=now, key_hash=new.key_hash)
        if not verdict.allowed:
            raise SecmonError(code, verdict.reason)
        if needs_deletion(holder, force, now=now):
            raise SecmonError(4000, "Resource type: agent:id", ids=(padded(holder.id),))
        replaced[holder.id] = verdict.reason
    if host_name is not None and new.name == host_name:
        raise SecmonError(1705, f"{new.name} is the manager")
    agent = take_id(connection, new.id)
    with change(connection) as digest:
        delete_entries(connection, digest, [require_agent(connection, one) for one in replaced], purge=purge)
        if new.id is not None:
            delete_tombstones(connection, digest, _tombstone(connection, agent))
        entry = _entry(agent, new, now, digest.revision)
        insert_entries(connection, digest, [entry])
    return Added(entry, tuple(replaced.values()))


def add_without_conflicts(connection: Connection, news: Sequence[New], *, now: int) -> list[Entry]:
    """Add agents with new ids, without conflicts as the caller has checked, in one revision.

    Raises 1725, and changes nothing, when there are too few ids.
    """
    first = number(connection, "next_id")
    if first + len(news) - 1 > MAX_ID:
        raise SecmonError(1725, "all ids are used up")
    if not news:
        return []
    put(connection, "next_id", first + len(news))
    with change(connection) as digest:
        entries = [_entry(agent, new, now, digest.revision) for agent, new in enumerate(news, first)]
        insert_entries(connection, digest, entries)
    return entries


def remove(connection: Connection, ids: Iterable[int], *, purge: bool = False) -> list[Entry]:
    """Remove agents; returns those that existed. ``purge``: they leave no line in the key file.

    Their ids are never used again.
    """
    gone = sorted((Entry(*row) for row in pick(connection, ENTRY, list(set(ids)))), key=lambda one: one.id)
    if gone:
        with change(connection) as digest:
            delete_entries(connection, digest, gone, purge=purge)
    return gone


def import_agents(connection: Connection, news: Sequence[New], *, now: int) -> list[SecmonError | None]:
    """Add many agents with the ids and keys of another manager, in one revision.

    For each the reason why it was left out, or ``None``: 1708 for an id and 1705 for a name in use, 1725 for an invalid
    id. Addresses may collide, as they do on the other manager. A tombstone with the id is deleted.
    """
    names, ids = set(connection.execute(select(agents.c.name)).scalars()), set(_ids(connection))
    results: list[SecmonError | None] = []
    taken: list[tuple[int, New]] = []
    for new in news:
        fault = _import_refusal(new, ids, names)
        results.append(fault)
        if fault is None and new.id is not None:
            names.add(new.name)
            ids.add(new.id)
            taken.append((new.id, new))
    if taken:
        with change(connection) as digest:
            stones = {one.id: one for one in tombstones(connection)}
            delete_tombstones(connection, digest, [stones[agent] for agent, _ in taken if agent in stones])
            insert_entries(connection, digest, [_entry(agent, new, now, digest.revision) for agent, new in taken])
        reserve(connection, max(agent for agent, _ in taken))
    return results


def add_tombstones(connection: Connection, stones: Sequence[tuple[int, str, str, str]]) -> list[int]:
    """Add tombstones of agents that another manager has removed; returns the ids that were not known."""
    known = {*_ids(connection), *connection.execute(select(removed.c.id)).scalars()}
    fresh = [stone for stone in {one[0]: one for one in stones}.values() if stone[0] not in known]
    if fresh:
        with change(connection) as digest:
            insert_tombstones(connection, digest, [Tombstone(*stone, 0, digest.revision) for stone in fresh])
        reserve(connection, max(stone[0] for stone in fresh))
    return [stone[0] for stone in fresh]


def purge_tombstones(connection: Connection, ids: Iterable[int]) -> list[int]:
    """Remove the key file lines of removed agents; returns the ids that had one. The ids are not used again."""
    wanted = set(ids)
    stones = [one for one in tombstones(connection) if one.id in wanted and not one.purged]
    if stones:
        with change(connection) as digest:
            delete_tombstones(connection, digest, stones)
            insert_tombstones(connection, digest, [replace(one, purged=1, revision=digest.revision) for one in stones])
    return [one.id for one in stones]


def change_keys(connection: Connection, lines: Mapping[int, tuple[str, str, str]]) -> list[int]:
    """Change name, address and key of existing agents to those of the key file.

    Names may be swapped, but must be unique in the end. Returns the ids of agents that have changed.
    """
    before = {agent: require_agent(connection, agent) for agent in lines}
    changed = [agent for agent, line in lines.items() if line != _line(before[agent])]
    if not changed:
        return []
    where = update(agents).where(agents.c.id == bindparam("agent"))
    with change(connection) as digest:
        after = []
        for agent in changed:
            name, address, key = lines[agent]
            new = replace(before[agent], name=name, register_ip=address, internal_key=key, revision=digest.revision)
            digest.subtract(before[agent])
            digest.add(new)
            after.append(new)
        # Temporary names first, so that names are unique at every step.
        connection.execute(where.values(name=bindparam("parked")), [{"agent": i, "parked": f" {i}"} for i in changed])
        fields = ("name", "register_ip", "internal_key", "revision")
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in fields}
        rows = [{"agent": one.id} | {f"new_{name}": getattr(one, name) for name in fields} for one in after]
        connection.execute(where.values(values), rows)
    return changed


def find(connection: Connection, agent: int) -> Entry | None:
    row = connection.execute(select(*ENTRY).where(agents.c.id == agent)).one_or_none()
    return None if row is None else Entry(*row)


def remove_group(connection: Connection, agent: int, group: str) -> None:
    """Remove an agent from a group; without another one it is assigned to ``default``.

    Raises 1701, 1734 when it is not in it, 1745 when it is in ``default`` only.
    """
    groups = require_agent(connection, agent).groups
    if group not in groups:
        raise SecmonError(1734, ids=(padded(agent),))
    if groups == (DEFAULT_GROUP,):
        raise SecmonError(1745, ids=(padded(agent),))
    assign(connection, {agent: tuple(one for one in groups if one != group)})


def remove_group_everywhere(connection: Connection, group: str) -> list[int]:
    """Remove all members from a group, as above; their ids in order."""
    condition = agents.c.id.in_(select(agent_groups.c.agent_id).where(agent_groups.c.name == group))
    members = [Entry(*row) for row in connection.execute(select(*ENTRY).where(condition).order_by(agents.c.id))]
    assign(connection, {one.id: tuple(name for name in one.groups if name != group) for one in members})
    return [one.id for one in members]


def assign(connection: Connection, groups: Mapping[int, Sequence[str]]) -> list[int]:
    """Assign each agent to exactly its groups, in one revision; returns the ids of agents that have changed.

    Raises 1701 and 1737 naming the agent, and changes nothing then.
    """
    before = {row[0]: Entry(*row) for row in pick(connection, ENTRY, list(groups))}
    unknown = [agent for agent in groups if agent not in before]
    if unknown:
        raise SecmonError(1701, ids=tuple(map(padded, unknown)))
    joined = {agent: join_groups(names) or DEFAULT_GROUP for agent, names in groups.items()}
    for agent, text in joined.items():
        if text.count(",") >= MAX_GROUPS:
            raise SecmonError(1737, ids=(padded(agent),))
    changed = [agent for agent, text in joined.items() if before[agent].group != text]
    if not changed:
        return []
    with change(connection) as digest:
        for agent in changed:
            digest.subtract(before[agent])
        after = [_regrouped(before[agent], joined[agent], digest.revision) for agent in changed]
        for entry in after:
            digest.add(entry)
        write_groups(connection, after)
    return changed


def _import_refusal(new: New, ids: Set[int], names: Set[str]) -> SecmonError | None:
    if new.id is None or not 0 < new.id <= MAX_ID:
        return SecmonError(1725, f"{new.id} is no id")
    if new.id in ids:
        return SecmonError(1708, padded(new.id))
    return SecmonError(1705, new.name) if new.name in names else None


def _entry(agent: int, new: New, now: int, revision: int) -> Entry:
    joined = join_groups(new.groups) or None
    return Entry(
        id=agent,
        name=new.name,
        register_ip=new.address,
        internal_key=new.key or token_hex(32),
        date_add=now if new.added is None else new.added,
        group=joined,
        group_hash=group_hash(joined) if joined else None,
        revision=revision,
    )


def _tombstone(connection: Connection, agent: int) -> list[Tombstone]:
    return [Tombstone(*row) for row in connection.execute(select(*TOMBSTONE).where(removed.c.id == agent))]


def _line(entry: Entry) -> tuple[str, str, str]:
    return entry.name, entry.register_ip, entry.internal_key


def _regrouped(entry: Entry, joined: str, revision: int) -> Entry:
    return replace(entry, group=joined, group_hash=group_hash(joined), revision=revision)


def require_agent(connection: Connection, agent: int) -> Entry:
    entry = find(connection, agent)
    if entry is None:
        raise SecmonError(1701, ids=(padded(agent),))
    return entry


def _ids(connection: Connection) -> list[int]:
    return list(connection.execute(select(agents.c.id)).scalars())
