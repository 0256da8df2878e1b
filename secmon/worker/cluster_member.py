"""The worker's end of the cluster link: its port for calls of the master, the link to the master, the lease."""

import logging
from collections.abc import Callable, Sequence

from grpc import aio

from secmon import API_VERSION
from secmon.cluster.leadership.known_term import NO_TERMS, KnownTerm
from secmon.cluster.lease import LeaseWriter
from secmon.cluster.rpc.credentials import new_server, server_credentials
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.relay import RelayedPort
from secmon.cluster.rpc.replica_positions import Positions, no_positions
from secmon.common.background import Background
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.worker.find_master import MasterSearch
from secmon.worker.lease_extension import LeaseExtender
from secmon.worker.master_link import MasterLink

MASTER_LINK = "link to the master"
"""Name of the task that maintains the link."""

log = logging.getLogger("secmon.clusterd.worker")


class ClusterMember:
    """The cluster link of a worker.

    Add listeners to ``link.listeners`` before :meth:`start`; ``port`` is the port in use for peers.
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
        known: KnownTerm = NO_TERMS,
    ) -> None:
        """``tasks``: those of the daemon."""
        self.settings, self._clock = settings, clock
        self._counters = counters or Counters()
        self.keystore = Keystore(paths, settings.node_name, clock)
        self._options = paths.local_internal_options
        self.port = settings.listen_port
        self._lease = LeaseWriter(paths.lease, clock, seconds=settings.lease_seconds)
        self.link = MasterLink(
            settings=settings,
            keystore=self.keystore,
            clock=clock,
            peer_port=lambda: self.port,
            positions=positions,
            lease=LeaseExtender(self._lease, lambda: positions()[0]),
            active_agents=active_agents,
            node_version=node_version,
            known=known,
            search=MasterSearch(settings, self.keystore, paths.role) if settings.addresses else None,
        )
        self._server: aio.Server | None = None
        self._peers: RelayedPort | None = None
        self._tasks = tasks or Background()

    async def start(self, services: Sequence[Callable[[aio.Server], None]] = ()) -> None:
        """Serve peers and start the link. Raises 2010 for a port that cannot be taken.

        The port opens before the node has a certificate; until then no client certificate is accepted.
        """
        self._server = new_server()
        for add in services:
            add(self._server)
        credentials = server_credentials(self.keystore, self._clock, clients=True)
        host = self.settings.bind_addr
        masters = {self.settings.master, *self.settings.addresses}
        # Not cluster.port: that is where a worker looks for the master.
        setting = f"clusterd.peer_port in {self._options}"
        self._peers = RelayedPort.for_nodes(
            self._server, credentials, host=host, port=self.settings.listen_port, setting=setting,
            clock=self._clock, counters=self._counters, is_known=lambda address: address in masters,
        )  # fmt: skip
        self.port = self._peers.port
        await self._server.start()
        self._peers.start()
        log.info("worker %s listens for its peers on %s:%s", self.settings.node_name, host, self.port)
        self._tasks.keep(MASTER_LINK, self.link.run)

    async def stop(self, reason: str = "the node stops", grace: float = 2.0) -> None:
        """Leave, give running calls ``grace`` seconds, close the port. The lease continues."""
        await self.link.leave(reason)
        await self._tasks.stop(MASTER_LINK)
        await self.link.finish()
        if self._peers:
            self._peers.close()
        if self._server:
            await self._server.stop(grace)
        if self._peers:
            await self._peers.stop()
        self._lease.close()
