"""The cluster daemon as worker: the link to the master, applying what it publishes, forwarding."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grpc import aio

from secmon.agents.groups.folders import MERGED
from secmon.agents.wakeups import wake
from secmon.cluster.call import Call
from secmon.cluster.coordinator import Coordinator, no_peer
from secmon.cluster.executor import Executor
from secmon.cluster.fan_out import CallLimits
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.node import Node
from secmon.cluster.routing import RoleRouter
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.credentials import peer_identity
from secmon.cluster.rpc.current_term import CurrentTermService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.peer import Context as PeerContext
from secmon.cluster.rpc.peer import PeerService, RemotePeer
from secmon.common.background import Background
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.operations.all import EXECUTABLE
from secmon.worker.apply_files import FileApplier, FileLimits
from secmon.worker.apply_registry import RegistryApplier
from secmon.worker.apply_security import SecurityApplier
from secmon.worker.cluster_member import ClusterMember
from secmon.worker.forwarding import MasterForwarder
from secmon.worker.report_agents import AgentReporter
from secmon.worker.signing_key import SigningKeyRegistration


def notify_link(paths: Paths, applied: Sequence[str]) -> None:
    """Notify the agent link when merged files are among the ``applied`` paths."""
    if any(path.endswith(f"/{MERGED}") for path in applied):
        wake(paths.merged_files_socket)


class WorkerRole:
    """A worker's half of the cluster."""

    def __init__(self, node: Node, executor: Executor, tasks: Background) -> None:
        self._node, self._tasks = node, tasks
        self._executor = executor
        options, section = node.options, node.main_config.cluster
        learns_terms = node.record is not None or section.searches_master
        self.security = SecurityApplier(node.security)
        self.files = FileApplier(
            node.paths.root, node.paths.cluster / "staging", clock=node.clock, limits=FileLimits.of(options)
        )
        self.cluster = ClusterMember(
            paths=node.paths,
            settings=LinkSettings.of(section, options),
            clock=node.clock,
            positions=self._positions,
            active_agents=lambda: self.agents.active,
            tasks=tasks,
            counters=node.counters,
            known=KnownTerm(node.paths.role if learns_terms else None),
        )
        self.agents = AgentReporter(node.agents, self.cluster.link, node=node.name, counters=node.counters)
        self.registry = RegistryApplier(node.agents)
        self.cluster.link.listeners += [self.security, self.files, self.registry]
        self.files.on_applied.append(partial(notify_link, node.paths))
        node.services.membership = self.cluster.link
        forwarder = MasterForwarder(
            node,
            self._find_master,
            hold_seconds=options.get("clusterd.hold_ms") / 1000,
            refusal=lambda: self.cluster.link.refusal,
        )
        self.relay, self.refuse = forwarder.relay, forwarder.refuse
        self.router = RoleRouter(
            "worker",
            executor,
            coordinator=Coordinator(executor, no_peer, limits=CallLimits.of(options)),
            forward_to=forwarder,
        )
        self._signing = SigningKeyRegistration(node.security, self._find_master, node.clock)

    def _positions(self) -> tuple[pb.Position, pb.Position]:
        return self.security.position(), self.files.position()

    async def _find_master(self, seconds: float) -> RemotePeer | None:
        link = self.cluster.link
        if not await link.wait_connected(seconds) or link.channel is None:
            return None
        return RemotePeer(
            self._node.name, link.channel, self._node.clock, unreachable=lambda: SecmonError(3023), whole=True
        )

    async def start(self) -> None:
        """Open the port for the master's calls and begin to link. Raises 2010 for a port that cannot be taken."""
        await self.cluster.start([self._serve_master, CurrentTermService(self._node.paths.role).add_to])
        self._tasks.keep("applier of the security state", self.security.run)
        self._tasks.keep("applier of files", self.files.run)
        self._tasks.keep("applier of the registry", self.registry.run)
        self._tasks.keep("reporter of agents", self.agents.run)
        self._tasks.keep("registration of the signing key", self._signing.run)

    def _serve_master(self, server: aio.Server) -> None:
        service = CallService(self._node.name, EXECUTABLE, whole=self._executor.run, part=self._executor.run_part)
        PeerService(service, clock=self._node.clock, authorize=self._authorize).add_to(server)

    def _authorize(self, context: PeerContext, call: Call) -> Call:
        """The master only; no caller is ``local`` to another host."""
        caller = peer_identity(context)
        if not caller.is_master or call.identity.local:
            raise SecmonError(4000, f"{caller.name} may not have this node work for it")
        return call

    def counters(self) -> Mapping[str, Any]:
        """Of the link to the master, and of the replicas."""
        link, (security, files) = self.cluster.link, self._positions()
        return {
            "master_link": {"connected": link.connected.is_set(), "sessions": link.sessions},
            "position": {
                "security": security.revision,
                "registry": self.registry.revision,
                "files": files.revision,
            },
        }

    async def stop(self) -> None:
        """Leave the cluster and close."""
        await self.cluster.stop()
        await self._tasks.stop()
