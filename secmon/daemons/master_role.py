"""The cluster daemon as master: sessions of workers, publishing, routing."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from grpc import aio

from secmon.agents.state_reports import count_active
from secmon.cluster.call import Call
from secmon.cluster.coordinator import Coordinator, no_peer
from secmon.cluster.executor import Executor
from secmon.cluster.fan_out import CallLimits
from secmon.cluster.leadership.client import LeaderClient
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.lease import LeaseWriter
from secmon.cluster.node import CallRouter, Node, Peer
from secmon.cluster.routing import RoleRouter
from secmon.cluster.rpc.answer_budget import AnswerBudgets
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.current_term import CurrentTermService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.peer import Context as PeerContext
from secmon.cluster.rpc.peer import PeerService, RemotePeer
from secmon.common.background import Background
from secmon.common.errors import SecmonError
from secmon.daemons.begin_term import begin_term
from secmon.master.callers import CallerVerifier
from secmon.master.cluster_server import ClusterServer
from secmon.master.hit_relay import HitRelay
from secmon.master.mastership import Mastership
from secmon.master.publish_files import FilePublisher
from secmon.master.publish_registry import RegistryPublisher
from secmon.master.publish_security import SecurityPublisher
from secmon.master.replication_service import ReplicationService
from secmon.master.report_service import ReportService, skew_correction
from secmon.master.security_maintenance import SecurityMaintenance
from secmon.master.term_guard import TermGuard
from secmon.operations.all import EXECUTABLE
from secmon.security.login_attempts import FailedLogins

log = logging.getLogger("secmon.clusterd.master")


class MasterRole:
    """The master's half of the cluster."""

    relay = None

    def __init__(self, node: Node, executor: Executor, tasks: Background) -> None:
        """Raises SecmonError 3042 when the cluster's certificate authority cannot be used."""
        self._node, self._tasks = node, tasks
        self._answers = AnswerBudgets(node.counters)
        self._build_publishers()
        settings = LinkSettings.of(node.main_config.cluster, node.options)
        self.mastership = _mastership(node, settings)
        self.cluster = ClusterServer(
            paths=node.paths,
            settings=settings,
            clock=node.clock,
            positions=self._positions,
            active_agents=self._active_agents,
            counters=node.counters,
            tasks=tasks,
            terms=self.mastership,
        )
        self.cluster.sessions.listeners += [self.security, self.files, self.registry]
        self.cluster.sessions.listeners += [self.mastership] if self.mastership else []
        self._build_services()
        coordinator = Coordinator(executor, self._find_peer, limits=CallLimits.of(node.options))
        self._provide(coordinator)
        self.router: CallRouter = RoleRouter("master", executor, coordinator=coordinator)
        if self.mastership is not None:
            known, gathered = KnownTerm(node.paths.role), self.mastership.gathered
            self.router = TermGuard(node.name, self.router, known, node.clock, gathered=gathered)
        self._for_workers = CallService(node.name, EXECUTABLE, whole=self.router.route, part=self._refuse_part)
        self._callers = CallerVerifier(node, skew_seconds=self.cluster.settings.max_clock_skew_seconds)

    def _build_publishers(self) -> None:
        node, option = self._node, self._node.options.get
        self.security = SecurityPublisher(
            node.security, counters=node.counters, ack_timeout_seconds=option("clusterd.ack_timeout_ms") / 1000
        )
        self.files = FilePublisher(
            node.paths.root,
            clock=node.clock,
            counters=node.counters,
            anti_entropy_seconds=option("clusterd.anti_entropy"),
            record=None if node.record is None else node.record.files(),
        )
        self.registry = RegistryPublisher(node.agents, counters=node.counters)

    def _build_services(self) -> None:
        node, sessions = self._node, self.cluster.sessions
        self._replication = ReplicationService(
            node.paths.root,
            files=self.files,
            security=node.security,
            registry=self.registry,
            authorize=sessions.caller,
        )
        self._reports = ReportService(
            node.agents,
            authorize=sessions.caller,
            health=self.cluster.health,
            clock=node.clock,
            counters=node.counters,
            max_skew_seconds=self.cluster.settings.max_clock_skew_seconds,
        )

    def _provide(self, coordinator: Coordinator) -> None:
        """Give the node the services that only a master has."""
        services, access = self._node.services, self._node.api_config.access
        services.failed_logins = FailedLogins(access.max_login_attempts, access.block_time, self._node.clock)
        services.membership = self.cluster.sessions
        services.health = self.cluster.health
        services.acknowledgements = self.security
        services.nodes = coordinator
        self._hits = HitRelay(
            coordinator, self.cluster.sessions, self._ahead, clock=self._node.clock, counters=self._node.counters
        )
        services.hit_relay = self._hits
        services.file_changes = None if self._node.record is None else self.files

    def _ahead(self, name: str) -> int:
        """Seconds that the clock of a node is ahead, as far as that is corrected."""
        session = self.cluster.sessions.get(name)
        return 0 if session is None else skew_correction(session.skew, self.cluster.settings.max_clock_skew_seconds)

    def _positions(self) -> tuple[pb.Position, pb.Position]:
        return self.security.position(), self.files.position()

    def _active_agents(self) -> int:
        with self._node.agents.read() as connection:
            return count_active(connection, self._node.name)

    def _find_peer(self, name: str) -> Peer:
        channel = self.cluster.channels.channel(name)
        if channel is None:
            return no_peer(name)
        return RemotePeer(name, channel, self._node.clock, answers=self._answers.of(name))

    async def start(self) -> None:
        """Publish, then open the ports. Raises 2010 for a port that cannot be taken; 3050, 3051."""
        if self._node.record is not None:
            term, address = self._node.record.held(), self._node.record.address
            key = self._node.main_config.cluster.key
            await asyncio.to_thread(begin_term, self._node.paths, address, key, term, self._node.clock)
        self._tasks.keep("publisher of the security state", self.security.run)
        self._tasks.keep("publisher of files", self.files.run)
        self._tasks.keep("publisher of the registry", self.registry.run)
        self._tasks.keep("hits of rules", self._hits.run)
        self._tasks.keep("maintenance of the security state", SecurityMaintenance(self._node).run)
        if (mastership := self.mastership) is not None:
            interval = self.cluster.settings.heartbeat_seconds
            self._tasks.keep("proofs of the term", lambda: mastership.run(interval))
        terms = CurrentTermService(self._node.paths.role).add_to
        await self.cluster.start([self._serve_replication, self._serve_reports, self._serve_workers, terms])

    def _serve_replication(self, server: aio.Server) -> None:
        pb_grpc.add_ReplicationServicer_to_server(self._replication, server)

    def _serve_reports(self, server: aio.Server) -> None:
        pb_grpc.add_ReportsServicer_to_server(self._reports, server)

    def _serve_workers(self, server: aio.Server) -> None:
        PeerService(self._for_workers, clock=self._node.clock, authorize=self._authorize).add_to(server)

    def _authorize(self, context: PeerContext, call: Call) -> Call:
        """Connected workers only, which say nothing about the caller but the token.

        One whose session has ended may not know it yet: 3023, so that it sends the call again in its next session.
        """
        try:
            worker = self.cluster.sessions.caller(context).name
        except SecmonError as error:
            if error.code != 3022:
                raise
            raise SecmonError(3023, error.extra) from None
        return self._callers.verified(call, worker)

    async def _refuse_part(self, call: Call) -> Any:
        raise SecmonError(3009, "workers do not hand out parts")

    def refuse(self) -> None:
        """Begin no more calls of workers, which send them again."""
        self._for_workers.refuse()

    def counters(self) -> Mapping[str, Any]:
        """Of the workers and their replicas."""
        registry, (security, files) = self.registry.position(), self._positions()
        revisions = {"security": security.revision, "registry": registry.revision, "files": files.revision}
        return {**self.cluster.health.counters(registry), "position": revisions}

    async def stop(self) -> None:
        """Tell the workers, finish, close."""
        await self.cluster.stop()
        await self._tasks.stop()
        self._replication.close()


def _mastership(node: Node, settings: LinkSettings) -> Mastership | None:
    """With a store of record."""
    if node.record is None:
        return None
    return Mastership(
        node.name,
        KnownTerm(node.paths.role),
        leader=LeaderClient(node.paths),
        lease=LeaseWriter(node.paths.lease, node.clock, seconds=settings.lease_seconds),
        clock=node.clock,
    )
