"""secmon-authd: enrolment of agents on this node."""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any

from grpc import aio

from secmon.agentlink.enrolment.admit import Ask, by_itself, by_the_master
from secmon.agentlink.enrolment.password import read_password
from secmon.agentlink.enrolment.service import Admit, EnrolmentService, Limits
from secmon.agentlink.enrolment.tls import ensure_certificate, server_context
from secmon.common.agents.enrol import Rules
from secmon.common.clock import SystemClock
from secmon.common.config.auth import AuthSettings, read_auth
from secmon.common.config.main import load_main_config
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.node import Node
from secmon.common.operations.call import Call
from secmon.common.outcome import Plain
from secmon.common.rpc.channels import local_channel, local_failure
from secmon.common.rpc.peer import RemotePeer
from secmon.daemons.assembly import open_node, read_installation
from secmon.daemons.daemon import Context

OPERATION = "POST /internal/agents"

MASTER_SECONDS = 10.0
"""How long a worker waits for the master's decision; agents wait longer."""

_CERTIFICATE_PERIOD = 86_400.0
"""Seconds between two looks whether the certificate ends soon."""


def build(context: Context) -> "AuthDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return AuthDaemon(open_node(read_installation(context.paths), clock=SystemClock()))


class AuthDaemon:
    """The enrolment service; without a port when ``remote_enrollment`` is off."""

    name = "secmon-authd"

    def __init__(self, node: Node) -> None:
        self.node = node
        self.settings = read_auth(node.main_config)
        self._service: EnrolmentService | None = None
        self._channel: aio.Channel | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Open the port. Raises 2003, 2010 and ConfigError."""
        if not self.settings.remote_enrollment:
            return
        paths, settings = self.node.paths, self.settings
        await asyncio.to_thread(ensure_certificate, paths, settings, self.node.clock)
        self._service = EnrolmentService(
            listening=self._listen(),
            context=server_context(paths, settings),
            rules=self._rules(settings),
            admit=self._admit(),
            counters=self.node.counters,
            clock=self.node.clock,
            check_host=bool(settings.ssl_verify_host and settings.ssl_agent_ca),
            limits=self._limits(),
        )
        self._service.start()

    def _listen(self) -> socket.socket:
        port, ipv6 = self.settings.port, self.settings.ipv6
        try:
            if ipv6:
                return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
            return socket.create_server(("0.0.0.0", port))
        except OSError as error:
            option = f"change auth.port in {self.node.paths.main_config}"
            raise SecmonError(2010, f"port {port}: {os.strerror(error.errno or 0)}; {option}") from error

    def _limits(self) -> Limits:
        option = self.node.options.get
        read = option("auth.timeout_seconds") + option("auth.timeout_microseconds") / 1e6
        return Limits(read=read) if read else Limits(read=Limits().request)

    def _rules(self, settings: AuthSettings) -> Rules:
        return Rules(
            password=read_password(self.node.paths) if settings.use_password else None,
            use_source_ip=settings.use_source_ip,
            allow_higher_versions=settings.allow_higher_versions,
        )

    def _admit(self) -> Admit:
        if self.node.role == "master":
            return by_itself(self.node.admission)
        return by_the_master(self._ask())

    def _ask(self) -> Ask:
        """Through the cluster daemon of this node, which knows the way to the master."""
        node, path = self.node, self.node.paths.cluster_socket
        self._channel = local_channel(path)
        peer = RemotePeer(node.name, self._channel, node.clock, unreachable=lambda: local_failure(path))

        async def ask(params: dict[str, Any]) -> object:
            call = Call(
                operation=OPERATION,
                params=params,
                identity=local_identity(),
                request_id=os.urandom(16).hex(),
                deadline=node.clock.monotonic() + MASTER_SECONDS,
                client="secmon-authd",
            )
            result = await peer.execute(call, part=False)
            return result.data if isinstance(result, Plain) else None

        return ask

    async def finished(self) -> None:
        if self._service is None:
            await self._stopping.wait()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._service.finished())
            tasks.create_task(self._renew(self._service))

    async def _renew(self, service: EnrolmentService) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_PERIOD)
            await asyncio.to_thread(ensure_certificate, self.node.paths, self.settings, self.node.clock)
            service.context = server_context(self.node.paths, self.settings)

    async def stop(self) -> None:
        self._stopping.set()
        if self._service is not None:
            await self._service.stop()
        if self._channel is not None:
            await self._channel.close(None)
        self.node.security.close()
        self.node.agents.close()

    async def reload(self) -> None:
        """Read the section, the password and the certificate anew. Port, address family and the check of clients'
        addresses change at a restart."""
        settings = read_auth(load_main_config(self.node.paths))
        if self._service is not None:
            rules, context = self._rules(settings), server_context(self.node.paths, settings)
            self._service.rules, self._service.context = rules, context
        self.settings = self.node.admission.settings = settings

    def counters(self) -> Mapping[str, Any]:
        return self.node.counters.snapshot()

    def active_config(self) -> Mapping[str, Any]:
        return {"auth": self.settings.shown()}
