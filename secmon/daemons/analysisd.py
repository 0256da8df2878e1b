"""secmon-analysisd: the analysis of the node's events, log tests, and the state of the engine."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.sources.presence import Presence, read_presence
from secmon.cluster.call import new_request_id
from secmon.cluster.rpc.local_client import LocalClient
from secmon.cluster.rpc.wire import pack_request
from secmon.cluster.rule_hits import Hits
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.identity import local_identity
from secmon.daemons.daemon import Context, StartError
from secmon.daemons.daemon_host import tend
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.node_builder import Installation, read_installation
from secmon.engine.build import AnalysisEnvironment
from secmon.engine.output.labels import StoredLabels
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.service import AnalysisService
from secmon.knowledge.attack.source import AttackSource

log = logging.getLogger("secmon.analysisd")

_FOLDERS = (
    "queue/events", "queue/events-local", "queue/events-inventory", "queue/responses",
    "queue/fts", "queue/diff", "queue/alerts", "queue/logcollector",
    "logs/alerts", "logs/archives", "logs/firewall",
    "stats", "stats/totals", "stats/hourly-average", "stats/weekly-average",
)  # fmt: skip
_REPORT_SECONDS = 5.0
"""How long the master's answer to a message of hits is waited for."""


def build(context: Context) -> "AnalysisDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return AnalysisDaemon(read_installation(context.paths))


class AnalysisDaemon:
    """The analysis of one node."""

    name = "secmon-analysisd"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._store = AgentStore(installation.paths.agents_db)
        self._clock = SystemClock()
        node = installation.main.cluster.node_name
        self._cluster = LocalClient(node, installation.paths.cluster_socket, self._clock)
        self.service: AnalysisService | None = None
        self.tasks = Background()

    async def start(self) -> None:
        """Analyse. Raises StartError 2000 when no ruleset can be used, SecmonError 1005, OSError."""
        paths, options, clock = self._installation.paths, self._installation.options, self._clock
        await asyncio.to_thread(restore_folders, paths, _FOLDERS)
        labels = StoredLabels(
            self._store,
            clock,
            max_age_seconds=options.get("analysisd.label_cache_maxage"),
            show_hidden=bool(options.get("analysisd.show_hidden_labels")),
        )
        env = AnalysisEnvironment(
            paths=paths,
            config=self._installation.main,
            options=options,
            clock=clock,
            counters=Counters(),
            host=socket.gethostname(),
            labels=labels,
            techniques=AttackSource(paths),
            report_hits=None if self._installation.main.cluster.disabled else self._report_hits,
        )
        service = self.service = AnalysisService(env, self._active_agents, self._presence, self.tasks)
        try:
            await service.start()
        except RulesetError as error:
            raise StartError(2000, f"the ruleset: {error.message}") from error
        self.tasks.keep("sockets", lambda: tend(service.tend))

    async def _report_hits(self, hits: Hits) -> None:
        """Without a master hits are not kept: they would come too late. Raises SecmonError."""
        request = pack_request(
            "PUT /internal/hits", hits, identity=local_identity(), request_id=new_request_id(), client=self.name
        )
        await self._cluster.send(request, self._clock.monotonic() + _REPORT_SECONDS)

    async def _active_agents(self) -> set[int]:
        def read() -> set[int]:
            query = select(agents.c.id).where(agents.c.connection_status == "active")
            with self._store.read() as connection:
                return set(connection.execute(query).scalars())

        try:
            return await asyncio.to_thread(read)
        except (SQLAlchemyError, OSError) as error:
            log.warning("The agents cannot be read, their counters are kept: %s", error)
            return set(self.service.event_counters.agents) if self.service is not None else set()

    async def _presence(self) -> Presence:
        cluster = self._installation.main.cluster
        node, now = None if cluster.disabled else cluster.node_name, int(SystemClock().now().timestamp())
        return await asyncio.to_thread(read_presence, self._store, node, now)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        await self.tasks.stop("sockets")
        if self.service is not None:
            await self.service.stop()
        await self._cluster.close()
        self._store.close()

    async def reload(self) -> None:
        """Reload the section of the ruleset and the levels of alerts; other options change at a restart."""
        if self.service is not None:
            await self.service.reload()

    def counters(self) -> Mapping[str, Any]:
        return self.service.counters() if self.service is not None else {}

    def active_config(self) -> Mapping[str, Any]:
        return self.service.active_config() if self.service is not None else {}
