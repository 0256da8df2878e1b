"""A node, and the seams between the rooms.

``daemons`` builds one :class:`Node` and passes it down. The Protocols below are what operations and the API see of the
cluster; master, worker and daemons implement them.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol

import msgspec
from prometheus_client import Histogram

from secmon.agents.registry.memberships import Memberships
from secmon.agents.registry.registration import AgentRegistrar
from secmon.agents.registry.store import AgentStore
from secmon.agents.sources.reports import SourceQuestion, SourceReport
from secmon.agents.tasks.store import TaskStore
from secmon.alerts.acknowledgements import acknowledged_ids
from secmon.alerts.search_threads import SearchThreads
from secmon.alerts.store import AlertStore
from secmon.cluster.answers import Answers
from secmon.cluster.call import Call
from secmon.cluster.call_times import new_call_times
from secmon.cluster.record.masters_record import MastersRecord
from secmon.cluster.rule_hits import Hits
from secmon.cluster.slow_requests import SlowRequest, SlowRequests
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig
from secmon.config.auth import read_auth
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.inventory.store import InventoryStore
from secmon.knowledge.attack.source import AttackSource
from secmon.security.login_attempts import FailedLogins
from secmon.security.passwords import HashingThreads
from secmon.security.store.security_store import SecurityStore
from secmon.security.tokens import Tokens

Role = Literal["master", "worker"]


class Member(msgspec.Struct, frozen=True):
    """A connected node, as ``GET /cluster/nodes`` shows it."""

    name: str
    type: Role
    version: str
    ip: str


class Membership(Protocol):
    """Who is in the cluster, as this node knows it."""

    def members(self) -> Sequence[Member]:
        """Connected nodes: the master first, then workers in the order they connected."""

    def absent(self) -> Sequence[str]:
        """Names of workers that are expected but not connected. Only the master knows; empty on workers."""


class HealthSource(Protocol):
    """The master's view of its workers (cluster.md 6.3)."""

    def health(self) -> Sequence[Mapping[str, Any]]:
        """One mapping ``{"info": ..., "status": ...}`` per connected node, the master's own without ``status``.

        Lost and refused nodes follow as extra members of the master's item: ``lost``, ``refused``.
        """


class MastershipSource(Protocol):
    """What this node knows of who is master, where a store of record decides it."""

    async def mastership(self) -> Mapping[str, Any]:
        """``term``, ``holder``, ``since``, ``reason``, ``candidates``; ``trouble``: why the database does not answer.

        Raises 1121, 1013, 1014 when ``secmon-leaderd`` does not answer.
        """


class Peer(Protocol):
    """A node that executes calls for us."""

    async def execute(self, call: Call, *, part: bool) -> Result:
        """Run ``call`` there before ``call.deadline``.

        ``part`` asks for the node's own share only. Raises the remote :class:`SecmonError`, 3022 when the node is not
        connected, 3021 past the deadline, 3018 when the call could not be delivered. Cancelling cancels it there.
        """


class CallRouter(Protocol):
    """Runs each call at its place."""

    async def route(self, call: Call) -> Result:
        """Run the call at its place; raises :class:`SecmonError`."""


class MasterCall(Protocol):
    """A daemon's way to the internal operations of the master."""

    async def __call__(self, operation: str, params: dict[str, Any], /) -> object:
        """The data that the master answers. Raises SecmonError."""


class NodeCalls(Protocol):
    """Asks nodes for what only they can do. The master has it, and a node without a cluster."""

    async def call_nodes(self, call: Call, params: Mapping[str, Any]) -> Mapping[str, Result | SecmonError]:
        """What each node answers to ``call`` with its own parameters, or why it does not, before the call's deadline.

        ``params`` holds instances of the operation's struct by the name of the node.

        The call names an operation that nodes run without judging permissions again: the caller has done so.
        """


class Acknowledgements(Protocol):
    """The master's publisher of security state."""

    async def confirmed(self, revision: int) -> Sequence[str]:
        """Wait until every connected worker runs security ``revision``, or for the bound; the names that lag."""


class FileChanges(Protocol):
    """The master's publisher of files."""

    async def settled(self) -> None:
        """Wait until the changes made so far are in the store of record, if there is one. Raises SecmonError 3052."""


class FileDigests(Protocol):
    """Content hashes of the replicated files of this node."""

    async def hashes(self, folders: Sequence[str]) -> Mapping[str, str]:
        """Path below the installation folder to BLAKE2b hex, of all replicated files in ``folders``, read now."""


class Control(Protocol):
    """The node's supervisor."""

    async def restart(self) -> None:
        """Ask for a restart of the node's daemons; returns at once. Raises 1901, 1902, 1014."""

    async def known_states(self) -> Mapping[str, str]:
        """State of the 17 daemons, in the order of manager.md 8.1; half a second old at most. Raises 1913."""

    async def checked_states(self) -> Mapping[str, str]:
        """As known, as far as each daemon that runs was found to answer: one that does not has failed."""

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        """``{section: ...}``, as in force in a daemon of this node.

        Raises 1121 when the daemon does not run, 1116 when it has no such section, 1013, 1014.
        """

    async def counters(self, daemon: str) -> Mapping[str, Any]:
        """Counters and gauges of a daemon of this node. Raises 1121 when it does not run, 1013, 1014."""

    async def slow_requests(self, *, since: timedelta, limit: int) -> Sequence[SlowRequest]:
        """The slowest requests of this node's clients in the last time ``since``. Raises as ``counters``."""

    async def supervisor_status(self) -> Mapping[str, Any]:
        """What the supervisor says of itself and its daemons: ``processes``, ``counters``, ``task_restarts``, ...

        Raises 1901, 1902, 1014.
        """


class Lease(Protocol):
    """The security lease: how long a worker may trust its replica."""

    def remaining(self) -> float:
        """Seconds left; infinite on the master and without a cluster, not positive when it has run out."""

    def refusal(self) -> int | None:
        """Code of the error with which the master keeps this node out, if it does."""


class AgentLink(Protocol):
    """The agents connected to this node (agent-link.md 8)."""

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        """Ask a component of the agent; its answer as it came.

        ``timeout`` in seconds shortens the configured one. The link's own failures come as the texts of 8.2
        (``err Cannot send request``, ...). Raises 1014 when ``secmon-remoted`` cannot be reached.
        """

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        """Send each agent its text, without waiting for an answer; the agents it could not be sent to.

        Raises 1014 as above.
        """

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """Counters of the link (12.1), or of these of its agents (12.2). Raises 1014 as above."""


XmlKind = Literal["rule", "decoder"]
RulesetKind = Literal["rule", "decoder", "list"]


class RulesetFile(msgspec.Struct, frozen=True):
    """A file of rules or decoders that the configuration names. ``disabled``: it names it as one to leave out."""

    filename: str
    relative_dirname: str
    status: Literal["enabled", "disabled"]

    @property
    def path(self) -> str:
        """Below the installation folder."""
        return f"{self.relative_dirname}/{self.filename}"


class Finding(msgspec.Struct, frozen=True):
    """What the engine would say of the ruleset on disk. An ``error`` keeps it from being used."""

    error: bool
    text: str
    """Names file and line."""
    file: str
    """Path below the installation folder; empty when it is about none."""


class Definitions(msgspec.Struct, frozen=True):
    """Rules or decoders of several files, as the API shows them, and the files that cannot be understood.

    The items are shared with other callers: they are never changed.
    """

    items: Sequence[Mapping[str, Any]]
    failures: Sequence[SecmonError]


Changed = Mapping[str, bytes | None]
"""Files by path, with another content than on disk; None: there is no such file."""


class MetricsSource(Protocol):
    """The figures of this node for Prometheus."""

    async def text(self) -> bytes:
        """OpenMetrics text, a second old at most."""


class RulesetFiles(Protocol):
    """Files of rules, decoders and lists of this node (analysis-api.md 2 to 5), read from disk at each call.

    All methods but ``version`` block and may be called from any thread. Paths are relative to the installation folder,
    and so are the ids of errors. An ``OSError`` becomes the error with which the kind of file says so.

    ``changes`` is held from the judgement of a change until it is made: each is judged on what the one before left.
    """

    changes: asyncio.Lock

    def names(self, kind: RulesetKind) -> Set[str]:
        """Base names of all files that permissions may be about (analysis-api.md 11)."""

    async def version(self, kind: XmlKind) -> Hashable:
        """Equal while ``definitions`` gives the same, read off the files after this call. Raises as ``listed``."""

    def listed(self, kind: XmlKind) -> Sequence[RulesetFile]:
        """The files that the configuration names, in its order. Raises 1200, 1500, 1101."""

    def definitions(self, kind: XmlKind, chosen: Callable[[RulesetFile], bool]) -> Definitions:
        """All rules or decoders of the listed files that are ``chosen``. Raises as ``listed``; 1201, 1207, 1502."""

    def lists(self) -> Sequence[tuple[str, str]]:
        """Folder and name of the lists below ``etc/lists``, ordered by both."""

    def find(self, kind: RulesetKind, filename: str, folder: str | None = None) -> str:
        """The path of a file. Raises 1415, 1503, 1802."""

    def read(self, kind: RulesetKind, path: str) -> bytes:
        """The content. Raises 1414, 1502, 1803, 1804; 1415, 1503, 1802."""

    def as_object(self, kind: RulesetKind, data: bytes) -> Mapping[str, Any]:
        """The content as JSON has it. Raises 1413, 1501, 1800."""

    def target(self, kind: RulesetKind, filename: str, folder: str | None = None) -> str:
        """The path that a file of this name has when users write it. Raises 1209 to 1211, 1505 to 1507."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""

    def check(self, kind: RulesetKind, data: bytes) -> None:
        """Raises 1112, 1113, 1800 for a content that is not accepted."""

    def write(self, kind: RulesetKind, path: str, data: bytes, *, overwrite: bool) -> None:
        """Put the file there: all of it, or nothing changes. Raises 1905, 1805, 1005, 1006."""

    def delete(self, kind: RulesetKind, path: str) -> None:
        """Raises 1906, 1907."""


class RulesetValidation(Protocol):
    """What the analysis engine of this node says of a ruleset. Raises SecmonError 1904 when it gives no verdict.

    ``changed``: files that are not as on disk. Both compile the ruleset, outside the daemons that answer calls, which
    takes seconds at worst.
    """

    async def findings(self, changed: Changed = {}) -> Sequence[Finding]:  # noqa: B006 - never changed
        """An error, or the warnings of the ruleset."""

    async def blocking_error(self, changed: Changed) -> Finding | None:
        """The error of the ruleset that the change would cause; None when it may be made.

        In a ruleset that is broken already, only an error in a further file blocks a change.
        """


class Analysis(Protocol):
    """The analysis engine of this node. Every call raises 1121 when it does not run, 1013, 1014."""

    async def store(self, messages: Sequence[str]) -> Sequence[int]:
        """Hand over messages, ``<type>:<escaped location>:<log>``; the indexes of those whose length is not allowed.

        All others are stored when this returns: they are analysed, whatever happens then.
        """

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """Counters of the engine (manager.md 10.1), or of these agents (11.1); times in seconds since 1970."""

    async def local_files(self) -> Mapping[str, Any]:
        """Counters of the log files of the node itself (manager.md 11.2); times in seconds since 1970."""

    async def sources(self, question: SourceQuestion) -> SourceReport:
        """Where the events of this node's agents come from."""

    async def ruleset(self, *, refresh: bool = False) -> Mapping[str, Any]:
        """What is in force, and what is wrong with the files; with ``refresh`` they are looked at before."""

    async def logtest(self, command: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """The whole answer of the log test (analysis-api.md 6.4): ``error``, ``data``, ``message``."""

    async def count_hits(self, senders: bytes) -> None:
        """Let composites count hits of other nodes: msgpack of a list of :class:`secmon.cluster.rule_hits.HitsOf`."""


class HitRelay(Protocol):
    """The master's way from each node to all others for hits of composites that are counted over the cluster."""

    def offer(self, sender: str, hits: Hits) -> None:
        """Take over what a node has to report. What is too much is dropped and counted."""


@dataclass(kw_only=True)
class Services:
    """What the daemons plug in. ``None``: this process or role does not have it."""

    control: Control
    lease: Lease
    membership: Membership | None = None
    health: HealthSource | None = None
    acknowledgements: Acknowledgements | None = None
    digests: FileDigests | None = None
    file_changes: FileChanges | None = None
    """Of a master with a store of record."""
    agent_link: AgentLink | None = None
    ruleset: RulesetFiles | None = None
    validation: RulesetValidation | None = None
    analysis: Analysis | None = None
    nodes: NodeCalls | None = None
    failed_logins: FailedLogins | None = None
    """Those of all nodes."""
    mastership: MastershipSource | None = None
    """With a store of record."""
    hit_relay: HitRelay | None = None
    """Of a master."""
    metrics: MetricsSource | None = None
    """Where clients are answered."""


@dataclass(kw_only=True)
class Node:
    """One node: configuration, clock, stores, services."""

    paths: Paths
    api_config: ApiConfig
    main_config: MainConfig
    options: InternalOptions
    security: SecurityStore
    services: Services
    record: MastersRecord | None = None
    """The store of record, where the configuration names one."""
    clock: Clock = field(default_factory=SystemClock)
    counters: Counters = field(default_factory=Counters)
    call_times: Histogram = field(default_factory=new_call_times)
    slow_requests: SlowRequests = field(init=False)
    """Those of the clients of this process."""
    tokens: Tokens = field(init=False)
    agents: AgentStore = field(init=False)
    registrar: AgentRegistrar = field(init=False)
    """Adds agents; on the master."""
    tasks: TaskStore = field(init=False)
    """Upgrades of agents; on the master."""
    inventory: InventoryStore = field(init=False)
    """What the agents that report to this node have sent of their hosts."""
    alerts: AlertStore = field(init=False)
    """The alerts that this node has raised."""
    attack: AttackSource = field(init=False)
    memberships: Memberships = field(init=False)
    alert_threads: SearchThreads = field(default_factory=SearchThreads)
    hashing: HashingThreads = field(default_factory=HashingThreads)
    answers: Answers = field(default_factory=Answers)

    def __post_init__(self) -> None:
        # The clock of a worker may be ahead of the master's, and that of another one behind it.
        difference = 2 * self.options.get("clusterd.max_clock_skew") if self.clustered else 0
        self.slow_requests = SlowRequests(self.options.get("apid.slow_request_ms") / 1000, self.clock)
        self.tokens = Tokens(self.clock, clock_difference_seconds=difference)
        self.agents = AgentStore(self.paths.agents_db, clock=self.clock)
        self.attack = AttackSource(self.paths)
        self.memberships = Memberships(self.agents)
        self.tasks = TaskStore(self.paths.tasks_db)
        self.inventory = InventoryStore(self.paths.inventory_db)
        self.alerts = AlertStore(self.paths.alert_store, self.clock, partial(acknowledged_ids, self.security))
        self.registrar = AgentRegistrar(self.agents, self.paths, self.clock, read_auth(self.main_config))

    @property
    def clustered(self) -> bool:
        return not self.main_config.cluster.disabled

    @property
    def name(self) -> str:
        """Node id in items and messages: the literal ``manager`` without a cluster (manager.md 1)."""
        return self.main_config.cluster.node_name if self.clustered else "manager"

    @property
    def role(self) -> Role:
        return self.main_config.cluster.node_type if self.clustered else "master"
