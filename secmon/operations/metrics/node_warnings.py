"""What on a node needs attention now, read off its figures; limits as in ``deploy/prometheus/alerts.yml``."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from secmon.common.clock import iso_z
from secmon.operations.metrics.daemon_counters import Sample

DISK_SHARE = 0.1
DESCRIPTOR_SHARE = 0.8
CERTIFICATE_SECONDS = 14 * 86_400.0
RESTART_SECONDS = 86_400.0
JOURNAL_BYTES = 32 << 20
ALERT_STORE_BYTES = 16 << 20


class NodeWarning(NamedTuple):
    """``kind``: what it is about; ``subject``: which daemon, folder, output; ``time``: what ``message`` dates."""

    kind: str
    subject: str
    message: str
    remediation: str
    time: str | None = None


class _Figures:
    """Values of metrics by name (without ``secmon_`` and ``_total``) and by labels."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._values: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for metric, labels, value in samples:
            self._values[metric.name].append((labels, value))

    def of(self, name: str, label: str) -> dict[str, float]:
        """By the value of ``label``, or by nothing where the metric has no such label."""
        return {labels.get(label, ""): value for labels, value in self._values[name]}

    def over(self, name: str, limit: float) -> list[Mapping[str, str]]:
        return [labels for labels, value in self._values[name] if value > limit]

    def one(self, name: str) -> float | None:
        """Of a metric that one daemon has; None while it does not answer."""
        return next((value for _, value in self._values[name]), None)


def node_warnings(samples: Iterable[Sample], now: datetime) -> list[NodeWarning]:
    """In the order of :data:`_RULES`; nothing when all is well."""
    figures = _Figures(samples)
    return [warning for rule in _RULES for warning in rule(figures, now.timestamp())]


def _daemons(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    for daemon, up in figures.of("daemon_up", "daemon").items():
        if not up:
            yield NodeWarning("daemon", daemon, f"{daemon} does not answer", "The log of the node says why.")


def _restarts(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    started = figures.of("process_start_time_seconds", "daemon")
    for daemon, restarts in figures.of("daemon_restarts", "daemon").items():
        at = started.get(daemon, 0.0)
        if restarts and now - at < RESTART_SECONDS:
            times = "once" if restarts == 1 else f"{restarts:.0f} times"
            message = f"{daemon} has restarted {times} since the node was started"
            yield NodeWarning("restart", daemon, message, "The log of the node says why it ended.", _iso(at))


def _disks(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    sizes, free = figures.of("filesystem_size_bytes", "folder"), figures.of("filesystem_available_bytes", "folder")
    folders = defaultdict(list)
    for folder, size in sizes.items():
        folders[size, free.get(folder, size)].append(folder)
    for (size, left), names in folders.items():  # folders of one file system have the same figures
        if size and left / size < DISK_SHARE:
            subject = ", ".join(names)
            message = f"The disk of {subject} has {left / size:.0%} left"
            yield NodeWarning("disk", subject, message, "On a full disk the analysis waits: delete files, or add room.")


def _certificates(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    for name, expiry in figures.of("certificate_expiry_time_seconds", "certificate").items():
        if expiry - now < CERTIFICATE_SECONDS:
            message = f"The certificate of {name} {'has expired' if expiry < now else 'expires soon'}"
            remediation = "Replace it. Those of nodes are renewed by themselves while their link to the master holds."
            yield NodeWarning("certificate", name, message, remediation, _iso(expiry))


def _journals(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    for labels in figures.over("journal_full", 0):
        message = f"The journal of events ({labels['journal']}) is full"
        yield NodeWarning("journal", labels["journal"], message, "Agents keep their events: its reader does not go on.")
    for labels in figures.over("journal_lag_bytes", JOURNAL_BYTES):
        message = f"{labels['reader']} is behind in the journal {labels['journal']}"
        yield NodeWarning("journal", labels["journal"], message, "More events come than are read: alerts are late.")


def _analysis(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    if figures.one("analysis_waiting"):
        yield NodeWarning("analysis", "", "The analysis waits", "Nothing is lost yet. Usually the disk is full.")
    if figures.one("ruleset_current") == 0:
        remediation = "They do not load: the validation of the configuration says why."
        yield NodeWarning("ruleset", "", "The stored rules are not those in force", remediation)
    if (figures.one("alert_store_lag_bytes") or 0) > ALERT_STORE_BYTES:
        yield NodeWarning("alerts", "", "Alerts are not searchable yet", "Their store is behind: the log says why.")


def _outputs(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    failures = figures.of("output_failures", "output")
    for output, waiting in figures.of("output_lag_bytes", "output").items():
        if waiting and failures.get(output):
            remediation = "They are sent when the receiver takes them again: the log of the node says what it answers."
            yield NodeWarning("output", output, f"Alerts wait for the output {output}", remediation)


def _limits(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    opened, most = figures.of("process_open_fds", "daemon"), figures.of("process_max_fds", "daemon")
    for daemon, count in opened.items():
        if count > DESCRIPTOR_SHARE * most.get(daemon, count * 2):
            message = f"{daemon} has {count:.0f} of at most {most[daemon]:.0f} open files"
            yield NodeWarning("descriptors", daemon, message, "Raise LimitNOFILE, or add a node.")


def _record(figures: _Figures, now: float) -> Iterator[NodeWarning]:
    if figures.one("record_store_up") == 0:
        yield NodeWarning("record", "", "The store of record does not answer", "Look at PostgreSQL.")


def _iso(seconds: float) -> str:
    return iso_z(datetime.fromtimestamp(seconds, UTC))


_RULES: Sequence[Callable[[_Figures, float], Iterator[NodeWarning]]] = (
    _daemons, _restarts, _analysis, _disks, _journals, _outputs, _certificates, _limits, _record,
)  # fmt: skip
