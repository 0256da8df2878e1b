"""The master's end of the cluster link: both ports, the sessions, and the membership task."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from grpc import aio

from secmon import API_VERSION
from secmon.cluster.node import Member
from secmon.cluster.rpc import relay
from secmon.cluster.rpc.credentials import new_server, server_credentials
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.relay import RelayedPort
from secmon.cluster.rpc.replica_positions import Positions, no_positions
from secmon.common.accept.limiter import ConnectionLimiter
from secmon.common.accept.listening import within_descriptors
from secmon.common.background import Background
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.master import enrolment_service
from secmon.master.authority import Authority
from secmon.master.channels import PeerChannels
from secmon.master.enrolment_service import EnrolmentService
from secmon.master.health import ClusterHealth
from secmon.master.known_nodes import KnownNodes
from secmon.master.mastership import NoTerms, Terms
from secmon.master.membership import MembershipRules
from secmon.master.membership_service import MembershipService
from secmon.master.refusal_log import RefusalLog
from secmon.master.session_table import SessionTable

log = logging.getLogger("secmon.clusterd.master")

MEMBERSHIP = "membership"
"""Name of the task that runs at every heartbeat interval."""
AddService = Callable[[aio.Server], None]
"""Adds a servicer to the cluster port's server."""


CALLS_PER_CONNECTION = 512
"""Concurrent calls of one worker; further calls wait at the worker."""
REQUEST_BYTES = {
    "/secmon.v1.Replication/FetchFiles": 4 * 1024 * 1024,  # a thousand of the longest paths: earlier versions
    "/secmon.v1.Replication/FetchManifest": 64 * 1024,
    "/secmon.v1.Replication/FetchRegistry": 64 * 1024,
    "/secmon.v1.Replication/FetchSecurity": 64 * 1024,
}


class ClusterServer:
    """The cluster link of a master.

    Add listeners to ``sessions.listeners`` and give ``services`` before :meth:`start`. ``port`` and ``enrol_port`` are
    the ports in use.
    """

    def __init__(
        self,
        *,
        paths: Paths,
        settings: LinkSettings,
        clock: Clock,
        positions: Positions = no_positions,
        active_agents: Callable[[], int] = lambda: 0,
        counters: Counters | None = None,
        tasks: Background | None = None,
        node_version: str = API_VERSION,
        terms: Terms | None = None,
    ) -> None:
        """``tasks``: those of the daemon. Raises SecmonError 3042 when the cluster's authority cannot be used."""
        self.settings, self._clock, self._paths = settings, clock, paths
        self.counters = counters or Counters()
        self.keystore = Keystore(paths, settings.node_name, clock, is_master=True)
        self.authority = Authority(paths, settings.cluster_name, clock, settings.certificate_life)
        self.authority.equip(self.keystore)
        self._known = KnownNodes(paths)
        self.refusals, self._terms = RefusalLog(clock), terms or NoTerms()
        master = Member(name=settings.node_name, type="master", version=node_version, ip=settings.master)
        self.sessions = SessionTable(
            rules=_rules(settings),
            clock=clock,
            master=master,
            known=self._known,
            positions=positions,
            terms=self._terms,
        )
        self.channels = PeerChannels(self.keystore)
        self.health = ClusterHealth(
            sessions=self.sessions,
            refusals=self.refusals,
            clock=clock,
            positions=positions,
            active_agents=active_agents,
        )
        self.sessions.listeners += [self.channels, self.health]
        self._build_services(node_version)
        self.port = self.enrol_port = 0
        self._servers: list[aio.Server] = []
        self._ports: list[RelayedPort] = []
        self._tasks = tasks or Background()

    def _build_services(self, node_version: str) -> None:
        self._membership = MembershipService(
            settings=self.settings,
            clock=self._clock,
            node_version=node_version,
            authority=self.authority,
            sessions=self.sessions,
            refusals=self.refusals,
            terms=self._terms,
        )
        self._enrolment = EnrolmentService(
            settings=self.settings,
            clock=self._clock,
            keystore=self.keystore,
            authority=self.authority,
            sessions=self.sessions,
            refusals=self.refusals,
            counters=self.counters,
            terms=self._terms,
        )

    async def start(self, services: Sequence[AddService] = ()) -> None:
        """Serve both ports. Raises 2010 for a port that cannot be taken; nothing is left open then."""
        cluster = new_server(calls_per_connection=CALLS_PER_CONNECTION, request_bytes=REQUEST_BYTES)
        pb_grpc.add_MembershipServicer_to_server(self._membership, cluster)
        for add in services:
            add(cluster)
        enrolling = new_server(
            max_message_bytes=enrolment_service.MAX_MESSAGE_BYTES,
            calls_per_connection=enrolment_service.CALLS_PER_CONNECTION,
        )
        pb_grpc.add_EnrolmentServicer_to_server(self._enrolment, enrolling)
        self._servers = [cluster, enrolling]
        host, settings = self.settings.bind_addr, self.settings
        try:
            self._ports.append(
                RelayedPort.for_nodes(
                    cluster, server_credentials(self.keystore, self._clock, clients=True),
                    host=host, port=settings.listen_port, setting=self._port_setting(),
                    clock=self._clock, counters=self.counters, is_known=self.sessions.has_address,
                )
            )  # fmt: skip
            self._ports.append(
                RelayedPort(
                    enrolling, server_credentials(self.keystore, self._clock, clients=False),
                    host=host, port=settings.enrol_port, setting=self._enrol_port_setting(),
                    limiter=self._enrolment_limiter(), ends_after=enrolment_service.CONNECTION_SECONDS,
                )
            )  # fmt: skip
            self.port, self.enrol_port = (each.port for each in self._ports)
            await cluster.start()
            await enrolling.start()
            for each in self._ports:
                each.start()
        except BaseException:
            await self.stop()
            raise
        self._tasks.keep(MEMBERSHIP, self._run_membership)
        log.info("master %s of cluster %s listens on %s:%s", settings.node_name, settings.cluster_name, host, self.port)

    def _enrolment_limiter(self) -> ConnectionLimiter:
        return ConnectionLimiter(
            "cluster.enrolment", within_descriptors(enrolment_service.LIMITS, each=relay.DESCRIPTORS, share=0.25),
            log=log, clock=self._clock, counters=self.counters, is_known=self.sessions.has_address,
        )  # fmt: skip

    def _port_setting(self) -> str:
        if self.settings.listen_port == self.settings.port:
            return f"cluster.port in {self._paths.main_config}"
        return f"clusterd.peer_port in {self._paths.local_internal_options}"

    def _enrol_port_setting(self) -> str:
        return f"clusterd.enrol_port (by default cluster.port + 1) in {self._paths.local_internal_options}"

    async def stop(self, reason: str = "the master stops", grace: float = 2.0) -> None:
        """Send the workers ``reason``, give them ``grace`` seconds to finish their calls and leave, close the ports."""
        await self._tasks.stop(MEMBERSHIP)
        self.sessions.close_all(reason)
        for port in self._ports:
            port.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(port.emptied() for port in self._ports))
        await asyncio.gather(*(server.stop(0) for server in self._servers))
        await asyncio.gather(*(port.stop() for port in self._ports))
        self._servers, self._ports = [], []
        await self.channels.close()
        await asyncio.to_thread(self._known.save)

    async def _run_membership(self) -> None:
        """Apply membership decisions and renew the certificate at each heartbeat interval.

        After this process was suspended, the heartbeats of the workers are still unread in their sockets. Judged now,
        every worker would count as silent, so one interval is skipped.
        """
        interval = self.settings.heartbeat_seconds
        while True:
            slept_from = self._clock.monotonic()
            await asyncio.sleep(interval)
            if self._clock.monotonic() - slept_from > self.settings.silence_seconds + interval:
                log.warning("this process was suspended for %.1f s", self._clock.monotonic() - slept_from)
                continue
            self.sessions.tick()
            self._renew_when_due()
            await asyncio.to_thread(self._known.save)

    def _renew_when_due(self) -> None:
        try:
            if self.keystore.renewal_due() and self.authority.equip(self.keystore):
                self.channels.refresh()
                log.info("the master's certificate is renewed")
        except OSError as error:  # e.g. a full disk; a third of the certificate's life is left for retries
            log.error("the master's certificate could not be renewed: %s", error)


def _rules(settings: LinkSettings) -> MembershipRules:
    return MembershipRules(
        master_name=settings.node_name,
        cluster_name=settings.cluster_name,
        max_skew=settings.max_clock_skew_seconds,
        silence=settings.silence_seconds,
        delay=settings.delay_seconds,
        forget_after=settings.forget_after,
    )
