"""The agents that may connect, kept up with the registry, and what the link knows of each while it runs."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import select

from secmon.agentlink.counters import MessageCounts
from secmon.agentlink.reply_path import ReplyPath
from secmon.agents.registry.schema import ConfigStatus, agents, removed
from secmon.agents.registry.store import AgentStore, get, number
from secmon.agents.wire.address import Network, bare, covers, network
from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import AgentCipher, Cipher
from secmon.agents.wire.keys import AgentKey, agent_id
from secmon.agents.wire.location import source

log = logging.getLogger("secmon.agentlink")


class Agent:
    """One agent of the registry; everything but its key is of this run of the link only."""

    __slots__ = (
        "allowed",
        "answers_in",
        "assigning",
        "cipher",
        "config_status",
        "counter",
        "counts",
        "group",
        "highest",
        "key",
        "last_keepalive",
        "last_valid",
        "merged_sum",
        "number",
        "prefix",
        "pushed",
        "pushing",
        "route",
        "said",
        "taken",
        "taken_in",
        "version",
    )

    def __init__(self, number: int, key: AgentKey, group: str | None) -> None:
        self.number = number
        self.key = key
        self.group = group
        """Names joined by commas; None before the first assignment."""
        self.allowed: Network | None = network(key.address)
        self.prefix = source(key.id, key.name, bare(key.address)).encode()
        """What the engine's lines have in front of the location."""
        self.cipher = AgentCipher(key)
        self.answers_in = Cipher.AES
        """Cipher of its last valid message."""
        self.last_valid = float("-inf")
        """Monotonic seconds of its last valid message."""
        self.last_keepalive = 0
        """Seconds since 1970 of its last keepalive or startup; 0 when it is not connected."""
        self.route: ReplyPath | None = None
        """Where its last control message came from."""
        self.said = 0
        """Hash of its last keepalive."""
        self.merged_sum: str | None = None
        """Of the shared files it has, as it last said; None when it did not."""
        self.config_status: ConfigStatus | None = None
        self.version: str | None = None
        """What it said at its startup, until it shuts down."""
        self.assigning = False
        """Its first group is being looked for."""
        self.pushing = False
        """Its shared files are being sent, or wait for their turn."""
        self.pushed: LastPush | None = None
        self.counts: MessageCounts | None = None
        self.counter: Counter | None = None
        """Counter of its last message, where these are verified."""
        self.highest = Counter()
        """The highest counter of its messages in this run of the link."""
        self.taken = 0
        """What it has had of the queue of events in the period ``taken_in`` of it."""
        self.taken_in = -1

    @property
    def stream(self) -> ReplyPath | None:
        """Its open TCP connection."""
        route = self.route
        return route if route is not None and route.stream and not route.closed else None

    def may_come_from(self, address: str) -> bool:
        return covers(self.allowed, address)


class LastPush(NamedTuple):
    """Shared files that were sent completely: which, when (monotonic seconds), how often in a row."""

    merged_sum: str
    at: float
    times: int


class Position(NamedTuple):
    """How far the table is."""

    source: str
    revision: int
    digest: str


class Row(NamedTuple):
    """An agent of the registry."""

    number: int
    name: str
    address: str
    key: str
    group: str | None


class Changes(NamedTuple):
    """What is new in the registry; ``whole``: these are all agents there are."""

    position: Position
    whole: bool
    rows: Sequence[Row]
    gone: Sequence[int]


def read_changes(store: AgentStore, since: Position | None) -> Changes | None:
    """What changed since; None when nothing did. Blocks."""
    with store.read() as connection:
        here = Position(
            get(connection, "source") or "", number(connection, "revision"), get(connection, "digest") or ""
        )
        if here == since:
            return None
        # Revisions of another store, or that went back, cannot be compared.
        whole = since is None or since.source != here.source or since.revision >= here.revision
        columns = select(agents.c.id, agents.c.name, agents.c.register_ip, agents.c.internal_key, agents.c.group)
        if whole or since is None:
            return Changes(here, True, [Row(*row) for row in connection.execute(columns)], ())
        rows = [Row(*row) for row in connection.execute(columns.where(agents.c.revision > since.revision))]
        gone = connection.execute(select(removed.c.id).where(removed.c.revision > since.revision)).scalars().all()
        return Changes(here, False, rows, gone)


class AgentTable:
    """Agents by what their messages name them with."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self.by_number: dict[int, Agent] = {}
        self.by_mark: dict[bytes, Agent] = {}
        """By the id in front of a payload, with its marks: ``!001!``."""
        self.by_address: dict[str, Agent] = {}
        """Those registered with an address, by it."""

    def __len__(self) -> int:
        return len(self.by_number)

    def apply(self, changes: Changes) -> "Applied":
        """Take changes over."""
        self.position = changes.position
        came = {row.number: row for row in changes.rows}
        gone = set(self.by_number) - came.keys() if changes.whole else set(changes.gone) & self.by_number.keys()
        stale = [self._drop(number) for number in gone]
        regrouped: list[Agent] = []
        for row in came.values():
            old = self.by_number.get(row.number)
            key = AgentKey(agent_id(row.number), row.name, row.address, row.key)
            if old is not None and old.key == key:
                if old.group != row.group:
                    old.group = row.group
                    regrouped.append(old)
                continue
            if old is not None:
                stale.append(self._drop(row.number))
            self._add(row, key)
        return Applied(stale, regrouped)

    def groups(self) -> Iterable[str]:
        """All combinations of groups that agents are in."""
        return {agent.group for agent in self.by_number.values() if agent.group}

    def _add(self, row: Row, key: AgentKey) -> None:
        try:
            agent = Agent(row.number, key, row.group)
        except ValueError:
            log.error("Agent %s cannot connect: %r is no address", key.id, key.address)
            return
        self.by_number[row.number] = agent
        self.by_mark[_mark(agent)] = agent
        if agent.allowed is not None:
            address = bare(key.address)
            # A host goes before a network of the same first address.
            if "/" not in key.address or address not in self.by_address:
                self.by_address[address] = agent

    def _drop(self, number: int) -> Agent:
        agent = self.by_number.pop(number)
        del self.by_mark[_mark(agent)]
        address = bare(agent.key.address)
        if self.by_address.get(address) is agent:
            del self.by_address[address]
        return agent


class Applied(NamedTuple):
    """Agents whose connections must end (removed, or with another key or address), and those in other groups."""

    stale: Sequence[Agent]
    regrouped: Sequence[Agent]


def _mark(agent: Agent) -> bytes:
    return b"!%b!" % agent.key.id.encode("ascii")
