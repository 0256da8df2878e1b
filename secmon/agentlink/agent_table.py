"""The agent table: the agents of the registry, with the state of their sessions and of their shared files."""

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


class AgentIdentity:
    """An agent as the registry has it. An agent with another key or address is another entry of the table."""

    __slots__ = ("allowed", "cipher", "event_prefix", "key", "number")

    def __init__(self, number: int, key: AgentKey) -> None:
        """Raises ValueError for an invalid address."""
        self.number = number
        self.key = key
        self.allowed: Network | None = network(key.address)
        self.cipher = AgentCipher(key)
        self.event_prefix = source(key.id, key.name, bare(key.address)).encode()
        """Precedes the location in the engine's lines."""

    def may_come_from(self, address: str) -> bool:
        return covers(self.allowed, address)


class Session:
    """State of an agent since the link started. Nothing of it survives a restart."""

    __slots__ = (
        "counts",
        "highest_counter",
        "keepalive_hash",
        "last_keepalive",
        "last_valid",
        "reply_cipher",
        "reply_path",
        "share_period",
        "share_used",
        "verified_counter",
        "version",
    )

    def __init__(self) -> None:
        self.reply_path: ReplyPath | None = None
        """The path of its last control message."""
        self.reply_cipher = Cipher.AES
        """Cipher of its last valid message."""
        self.last_valid = float("-inf")
        """Monotonic seconds of its last valid message."""
        self.last_keepalive = 0
        """Seconds since 1970 of its last keepalive or startup; 0 when it is not connected."""
        self.keepalive_hash = 0
        """Hash of its last keepalive: an equal one changes nothing but the time."""
        self.version: str | None = None
        """From its startup until its shutdown."""
        self.counts: MessageCounts | None = None
        self.verified_counter: Counter | None = None
        """Counter of its last message, where counters are verified."""
        self.highest_counter = Counter()
        self.share_used = 0
        """Its share of the room for events that is used up in ``share_period``."""
        self.share_period = -1

    @property
    def connection(self) -> ReplyPath | None:
        """Its open TCP connection."""
        path = self.reply_path
        return path if path is not None and path.stream and not path.closed else None


class LastPush(NamedTuple):
    """The last complete push of shared files: md5, monotonic seconds, number of pushes of these files in a row."""

    merged_sum: str
    at: float
    times: int


class Delivery:
    """The groups of an agent, the shared files that it has, and the state of their delivery."""

    __slots__ = ("assigning", "config_status", "group", "last_push", "merged_sum", "pushing")

    def __init__(self, group: str | None) -> None:
        self.group = group
        """Names joined by commas; None before the first assignment."""
        self.merged_sum: str | None = None
        """md5 of the files that it has, from its last keepalive."""
        self.config_status: ConfigStatus | None = None
        self.assigning = False
        """Its first group was requested."""
        self.pushing = False
        """Its files are being sent, or are queued for it."""
        self.last_push: LastPush | None = None


class Agent:
    """One agent that may connect."""

    __slots__ = ("delivery", "identity", "session")

    def __init__(self, number: int, key: AgentKey, group: str | None) -> None:
        """Raises ValueError for an invalid address."""
        self.identity = AgentIdentity(number, key)
        self.session = Session()
        self.delivery = Delivery(group)

    @property
    def number(self) -> int:
        return self.identity.number

    @property
    def id(self) -> str:
        """The number as text, as logs and keys have it: ``001``."""
        return self.identity.key.id


class Position(NamedTuple):
    """The state of the registry that the table has."""

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
    """Changes of the registry; ``whole``: ``rows`` are all agents."""

    position: Position
    whole: bool
    rows: Sequence[Row]
    gone: Sequence[int]


def read_changes(store: AgentStore, since: Position | None) -> Changes | None:
    """The changes since a position; None when there are none. Blocks."""
    with store.read() as connection:
        here = Position(
            get(connection, "source") or "", number(connection, "revision"), get(connection, "digest") or ""
        )
        if here == since:
            return None
        # Revisions of another store, or lower ones, cannot be compared: everything is read.
        whole = since is None or since.source != here.source or since.revision >= here.revision
        columns = select(agents.c.id, agents.c.name, agents.c.register_ip, agents.c.internal_key, agents.c.group)
        if whole or since is None:
            return Changes(here, True, [Row(*row) for row in connection.execute(columns)], ())
        rows = [Row(*row) for row in connection.execute(columns.where(agents.c.revision > since.revision))]
        gone = connection.execute(select(removed.c.id).where(removed.c.revision > since.revision)).scalars().all()
        return Changes(here, False, rows, gone)


class AgentTable:
    """Agents by the ways in which messages identify them."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self.by_number: dict[int, Agent] = {}
        self.by_mark: dict[bytes, Agent] = {}
        """By the id that precedes a payload, with its marks: ``!001!``."""
        self.by_address: dict[str, Agent] = {}
        """By registered address, where there is one."""

    def __len__(self) -> int:
        return len(self.by_number)

    def apply(self, changes: Changes) -> "Applied":
        """Apply changes of the registry."""
        self.position = changes.position
        came = {row.number: row for row in changes.rows}
        gone = set(self.by_number) - came.keys() if changes.whole else set(changes.gone) & self.by_number.keys()
        stale = [self._drop(number) for number in gone]
        regrouped: list[Agent] = []
        for row in came.values():
            old = self.by_number.get(row.number)
            key = AgentKey(agent_id(row.number), row.name, row.address, row.key)
            if old is not None and old.identity.key == key:
                if old.delivery.group != row.group:
                    old.delivery.group = row.group
                    regrouped.append(old)
                continue
            if old is not None:
                stale.append(self._drop(row.number))
            self._add(row, key)
        return Applied(stale, regrouped)

    def groups(self) -> Iterable[str]:
        """All combinations of groups that agents are in."""
        return {agent.delivery.group for agent in self.by_number.values() if agent.delivery.group}

    def _add(self, row: Row, key: AgentKey) -> None:
        try:
            agent = Agent(row.number, key, row.group)
        except ValueError:
            log.error("Agent %s cannot connect: %r is not an address", key.id, key.address)
            return
        self.by_number[row.number] = agent
        self.by_mark[_mark(agent)] = agent
        if agent.identity.allowed is not None:
            address = bare(key.address)
            # A host goes before a network of the same first address.
            if "/" not in key.address or address not in self.by_address:
                self.by_address[address] = agent

    def _drop(self, number: int) -> Agent:
        agent = self.by_number.pop(number)
        del self.by_mark[_mark(agent)]
        address = bare(agent.identity.key.address)
        if self.by_address.get(address) is agent:
            del self.by_address[address]
        return agent


class Applied(NamedTuple):
    """The effect of changes: agents that were removed or have another key or address, and those in other groups."""

    stale: Sequence[Agent]
    regrouped: Sequence[Agent]


def _mark(agent: Agent) -> bytes:
    return b"!%b!" % agent.id.encode("ascii")
