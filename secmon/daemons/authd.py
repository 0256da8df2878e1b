"""secmon-authd: enrolment of agents on this node."""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any

from secmon.agentlink.enrolment.enrol_agent import on_master, on_worker
from secmon.agentlink.enrolment.password import read_password
from secmon.agentlink.enrolment.service import AddAgent, EnrolmentService, Limits
from secmon.agentlink.enrolment.tls import ensure_certificate, server_context
from secmon.agents.registry.enrolment import Rules
from secmon.cluster.node import Node
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.config.agent_versions import highest_agent
from secmon.config.auth import read_auth
from secmon.config.main import MainConfig, load_main_config
from secmon.daemons.daemon import Context
from secmon.daemons.master_client import MasterClient
from secmon.daemons.node_builder import open_node, read_installation

_CERTIFICATE_PERIOD = 86_400.0
"""Seconds between two checks whether the certificate ends soon."""


def build(context: Context) -> "AuthDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return AuthDaemon(open_node(read_installation(context.paths, hands_in=True), clock=SystemClock()))


class AuthDaemon:
    """The enrolment service; without a port when ``remote_enrollment`` is off."""

    name = "secmon-authd"

    def __init__(self, node: Node) -> None:
        self.node = node
        self.settings = read_auth(node.main_config)
        self._service: EnrolmentService | None = None
        self._master = MasterClient(node, self.name)
        self.tasks = Background()

    async def start(self) -> None:
        """Open the port. Raises 2003, 2010 and ConfigError."""
        if not self.settings.remote_enrollment:
            return
        paths, settings = self.node.paths, self.settings
        await asyncio.to_thread(ensure_certificate, paths, settings, self.node.clock)
        service = self._service = EnrolmentService(
            listening=self._listen(),
            context=server_context(paths, settings),
            rules=self._rules(self.node.main_config),
            add_agent=self._add_agent(),
            counters=self.node.counters,
            clock=self.node.clock,
            check_host=bool(settings.ssl_verify_host and settings.ssl_agent_ca),
            limits=self._limits(),
            tasks=self.tasks,
        )
        service.start()
        self.tasks.keep("renewal of the certificate", lambda: self._renew(service))

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

    def _rules(self, config: MainConfig) -> Rules:
        settings = read_auth(config)
        return Rules(
            password=read_password(self.node.paths) if settings.use_password else None,
            use_source_ip=settings.use_source_ip,
            highest_version=None if settings.allow_higher_versions else highest_agent(config),
        )

    def _add_agent(self) -> AddAgent:
        if self.node.role == "master":
            return on_master(self.node.registrar)
        return on_worker(self._master.call)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def _renew(self, service: EnrolmentService) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_PERIOD)
            await asyncio.to_thread(ensure_certificate, self.node.paths, self.settings, self.node.clock)
            service.context = server_context(self.node.paths, self.settings)

    async def stop(self) -> None:
        await self.tasks.stop()
        if self._service is not None:
            await self._service.stop()
        await self._master.close()
        self.node.security.close()
        self.node.agents.close()

    async def reload(self) -> None:
        """Read the section, the password and the certificate again. Port, address family and the check of clients'
        addresses change at a restart."""
        config = load_main_config(self.node.paths)
        settings = read_auth(config)
        if self._service is not None:
            rules, context = self._rules(config), server_context(self.node.paths, settings)
            self._service.rules, self._service.context = rules, context
        self.settings = self.node.registrar.settings = settings

    def counters(self) -> Mapping[str, Any]:
        return self.node.counters.snapshot()

    def active_config(self) -> Mapping[str, Any]:
        return {"auth": self.settings.active_configuration()}
