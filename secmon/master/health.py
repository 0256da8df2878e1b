"""The master's view of its workers: the items of ``/cluster/healthcheck`` (cluster.md 6.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.replica_positions import Positions
from secmon.common.clock import Clock, iso_micro
from secmon.master.publish_files import ERROR_LENGTH
from secmon.master.refusal_log import RefusalLog
from secmon.master.session_table import SessionTable
from secmon.master.worker_session import WorkerSession

NEVER = "n/a"


@dataclass
class _WorkerHealth:
    """What a worker has reported during its session."""

    active_agents: int = 0
    last_keep_alive: str = NEVER
    security: pb.Position = field(default_factory=pb.Position)
    registry: pb.Position = field(default_factory=pb.Position)
    files: pb.Position = field(default_factory=pb.Position)
    checked: tuple[str, str] = (NEVER, NEVER)
    synced: tuple[str, str] = (NEVER, NEVER)
    sync_error: str = ""
    assigned: tuple[str, str] = (NEVER, NEVER)
    assignments: int = 0
    reported: tuple[str, str] = (NEVER, NEVER)
    reports: int = 0
    total_files: Mapping[str, int] = field(
        default_factory=lambda: {"missing": 0, "shared": 0, "extra": 0, "extra_valid": 0}
    )


class ClusterHealth:
    """Collects what sessions report; implements :class:`secmon.cluster.node.HealthSource`."""

    def __init__(
        self,
        *,
        sessions: SessionTable,
        refusals: RefusalLog,
        clock: Clock,
        positions: Positions,
        active_agents: Callable[[], int],
    ) -> None:
        self._sessions, self._refusals, self._clock = sessions, refusals, clock
        self._positions, self._active_agents = positions, active_agents
        self._records: dict[int, _WorkerHealth] = {}

    # -- SessionListener

    def joined(self, session: WorkerSession) -> None:
        self._records[session.candidate.serial] = _WorkerHealth()

    def left(self, session: WorkerSession) -> None:
        self._records.pop(session.candidate.serial, None)

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        record = self._records[session.candidate.serial]
        if message.HasField("heartbeat"):
            record.last_keep_alive = iso_micro(self._clock.now())
            record.active_agents = message.heartbeat.active_agents
            record.security, record.files = message.heartbeat.security, message.heartbeat.files
            _, files = self._positions()
            if files.digest and record.files.digest == files.digest:  # each heartbeat compares the whole file set
                record.checked = (record.last_keep_alive, record.last_keep_alive)
        elif message.HasField("security_ack"):
            record.security = message.security_ack.position
        elif message.HasField("files_ack"):
            _record_ack(record, message.files_ack)
        elif message.HasField("registry_ack"):
            now = iso_micro(self._clock.now())
            record.registry = message.registry_ack
            record.assigned, record.assignments = (now, now), record.assignments + 1

    def agents_reported(self, node: str, started: float) -> None:
        """See ``master.report_service.ReportListener``."""
        session = self._sessions.get(node)
        record = self._records.get(session.candidate.serial) if session else None
        if record is not None:
            record.reported = (_date(started), iso_micro(self._clock.now()))
            record.reports += 1

    # -- Counters

    def counters(self, registry: pb.Position) -> Mapping[str, Any]:
        """Workers by their state, and of each connected one by name: how far it is behind the master, silence and
        round trip in seconds, clock. ``registry``: the master's position."""
        sessions, now = self._sessions.all(), self._clock.monotonic()
        security, files = self._positions()
        records = {session.name: self._records[session.candidate.serial] for session in sessions}
        behind = {
            "security": {name: _behind(security, record.security) for name, record in records.items()},
            "registry": {name: _behind(registry, record.registry) for name, record in records.items()},
            "files": {name: _behind(files, record.files) for name, record in records.items()},
        }
        return {
            "cluster.workers": {
                "connected": len(sessions),
                "lost": len(self._sessions.absent_workers()),
                "refused": len(self._refusals.items()),
            },
            "replicas": {
                **{name: {"behind": figures} for name, figures in behind.items()},
                "silence": {session.name: now - session.last_heard for session in sessions},
                "round_trip": {session.name: session.round_trip for session in sessions},
                "clock_skew": {session.name: session.skew for session in sessions},
            },
        }

    # -- HealthSource

    def health(self) -> Sequence[Mapping[str, Any]]:
        """See ``cluster.node.HealthSource``. The master's item has ``lost`` and ``refused`` when there are any."""
        master = self._sessions.members()[0]
        item: dict[str, Any] = {"info": _info(master.name, master.type, master.version, master.ip)}
        item["info"]["n_active_agents"] = self._active_agents()
        lost = [
            {
                "name": node.name,
                "version": node.version,
                "ip": node.address or node.ip,
                "last_seen": iso_micro(node.last_seen),
            }
            for node in self._sessions.absent_workers()
        ]
        item |= {"lost": lost} if lost else {}
        refused = self._refusals.items()
        item |= {"refused": refused} if refused else {}
        return [item, *(self._worker(session) for session in self._sessions.all())]

    def _worker(self, session: WorkerSession) -> dict[str, Any]:
        record = self._records[session.candidate.serial]
        info = _info(session.name, "worker", session.version, session.address)
        info["n_active_agents"] = record.active_agents
        _, files = self._positions()
        return {
            "info": info,
            "status": {
                "sync_integrity_free": (record.files.epoch, record.files.revision) == (files.epoch, files.revision),
                "last_check_integrity": _dates(record.checked, "_master"),
                "last_sync_integrity": _dates(record.synced, "_master")
                | {"total_files": dict(record.total_files), "total_extra_valid": 0},
                "sync_agent_info_free": True,
                "last_sync_agentinfo": _dates(record.reported, "_master") | {"n_synced_chunks": record.reports},
                "last_sync_agentgroup": _dates(record.assigned) | {"n_synced_chunks": record.assignments},
                "last_sync_full_agentgroup": _dates((NEVER, NEVER)) | {"n_synced_chunks": 0},
                "last_keep_alive": record.last_keep_alive,
            }
            | ({"sync_integrity_error": record.sync_error} if record.sync_error else {}),
        }


def _behind(master: pb.Position, worker: pb.Position) -> int:
    """Revisions that the worker lacks; all of them when its replica has another origin."""
    return max(0, master.revision - (worker.revision if worker.epoch == master.epoch else 0))


def _record_ack(record: _WorkerHealth, ack: pb.FilesAck) -> None:
    dates = (_date(ack.started), _date(ack.ended))
    record.checked = dates
    record.sync_error = ack.error[:ERROR_LENGTH]
    if ack.error:
        return
    record.files = ack.position
    counts = {"missing": ack.missing, "shared": ack.shared, "extra": ack.extra}
    if any(counts.values()):
        record.synced, record.total_files = dates, counts


def _info(name: str, kind: str, version: str, ip: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "version": version, "ip": ip}


def _dates(pair: tuple[str, str], suffix: str = "") -> dict[str, Any]:
    return {f"date_start{suffix}": pair[0], f"date_end{suffix}": pair[1]}


def _date(seconds: float) -> str:
    """ISO form of a worker's time; "never" for one outside the calendar."""
    try:
        return iso_micro(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return NEVER
