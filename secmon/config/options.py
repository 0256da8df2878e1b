"""Internal options: integers that seldom need a change (manager.md 17).

``etc/internal_options.conf`` is shipped and replaced at upgrades, ``etc/local_internal_options.conf`` is the user's
and wins. A line is ``section.name=integer``; ``#`` starts a comment.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from secmon.common.errors import MISSING, ConfigError, Fault, SecmonError
from secmon.common.file_io import read_regular
from secmon.common.paths import Paths

_LINE = re.compile(r"([A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+)\s*=\s*(.*)", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class Option(NamedTuple):
    """Bounds are inclusive; ``special`` are values outside them that have a meaning of their own."""

    default: int
    low: int
    high: int
    about: str
    special: tuple[int, ...] = ()

    @property
    def allowed(self) -> str:
        return ", ".join([*(str(each) for each in self.special), f"{self.low} to {self.high}"])

    def accepts(self, value: int) -> bool:
        return value in self.special or self.low <= value <= self.high


_LISTEN = "0: any free port"
OPTIONS: Mapping[str, Option] = {
    "clusterd.heartbeat_ms": Option(1000, 50, 60_000, "Milliseconds between two signs of life of a worker."),
    "clusterd.heartbeat_misses": Option(3, 1, 100, "Signs of life missed before a node counts as gone."),
    "clusterd.reconnect_min_ms": Option(200, 10, 60_000, "Milliseconds before the first try to connect again."),
    "clusterd.reconnect_max_ms": Option(4_000, 10, 600_000, "Milliseconds that the pauses between tries grow to."),
    "clusterd.security_lease": Option(
        30, 1, 3600, "Seconds without word from the master after which a worker honours no token."
    ),
    "clusterd.ack_timeout_ms": Option(
        2000, 10, 60_000, "Milliseconds that a security change waits for the nodes to acknowledge it."
    ),
    "clusterd.hold_ms": Option(3000, 0, 60_000, "Milliseconds that a call waits for a master that is away."),
    "clusterd.max_clock_skew": Option(60, 1, 3600, "Seconds that the clocks of two nodes may differ."),
    "clusterd.peer_port": Option(
        -1, 1025, 65534, f"Port of this node for its peers. -1: that of the cluster section. {_LISTEN}.", (-1, 0)
    ),
    "clusterd.enrol_port": Option(
        -1, 1025, 65534, f"Port where nodes get their certificates. -1: the peers' port plus one. {_LISTEN}.", (-1, 0)
    ),
    "clusterd.certificate_days": Option(90, 1, 3650, "Days that a node's certificate is valid."),
    "clusterd.anti_entropy": Option(60, 1, 86_400, "Seconds between two comparisons of the whole replicated state."),
    "clusterd.max_file_size_mb": Option(1024, 1, 65_536, "Megabytes of the largest file that is replicated."),
    "clusterd.max_files": Option(200_000, 1, 10_000_000, "Files that a replicated set may hold."),
    "clusterd.forget_after_hours": Option(24, 1, 87_600, "Hours after which a node that left is forgotten."),
    "clusterd.fanout_limit": Option(256, 1, 4096, "Calls to other nodes that are in flight at the same time."),
    "clusterd.calls_per_node": Option(16, 1, 4096, "Calls to one other node that are in flight at the same time."),
    "clusterd.request_timeout_max": Option(
        3600, 1, 86_400, "Seconds that a request between nodes may take, wait_for_complete or not."
    ),
    "leaderd.term_seconds": Option(
        10, 2, 300, "Seconds without a renewal after which another node becomes master; renewed in a fifth of them."
    ),
    "leaderd.hold_ms": Option(
        10_000, 0, 600_000, "Milliseconds that a call waits for a master at most, where nodes change their roles."
    ),
    "leaderd.debug": Option(0, 0, 2, "Detail of the log of who is master."),
    "clusterd.debug": Option(0, 0, 2, "Detail of the cluster's log."),
    "apid.slow_request_ms": Option(
        1000, 0, 3_600_000, "Milliseconds after which an answer is late: secmon requests slow; 0: none is."
    ),
    "auth.timeout_seconds": Option(1, 0, 2_147_483_647, "Seconds that an agent may take to send more of its request."),
    "auth.timeout_microseconds": Option(0, 0, 999_999, "Microseconds in addition to these seconds."),
    "authd.debug": Option(0, 0, 2, "Detail of the log of enrolment."),
    "analysisd.default_timeframe": Option(
        360, 60, 3600, "Seconds that composite rules look back when they do not say."
    ),
    "analysisd.stats_maxdiff": Option(999_000, 10, 999_999, "Events above the average of an hour that always alert."),
    "analysisd.stats_mindiff": Option(1250, 10, 999_999, "Events above the average of an hour that never alert."),
    "analysisd.stats_percent_diff": Option(150, 5, 9999, "Percent above the average of an hour that alert."),
    "analysisd.fts_list_size": Option(
        32, 12, 512, "Last keys that first times of intrusion detectors are held against."
    ),
    "analysisd.fts_min_size_for_str": Option(14, 6, 128, "Leading bytes that make two such keys alike."),
    "analysisd.log_fw": Option(1, 0, 1, "Write events of firewalls to firewall.log."),
    "analysisd.decoder_order_size": Option(256, 32, 1024, "Fields that a decoder may name, and an event may have."),
    "analysisd.geoip_jsonout": Option(0, 0, 1, "Kept for existing files."),
    "analysisd.label_cache_maxage": Option(10, 0, 60, "Seconds that the labels of an agent are kept."),
    "analysisd.show_hidden_labels": Option(0, 0, 1, "Show hidden labels in alerts."),
    "analysisd.rlimit_nofile": Option(458_752, 1024, 1_048_576, "Files that may be open."),
    "analysisd.min_rotate_interval": Option(600, 10, 86_400, "Seconds of the shortest rotate_interval."),
    "analysisd.state_interval": Option(5, 0, 86_400, "Seconds between two versions of the state file; 0: none."),
    "analysisd.decode_event_queue_size": Option(16_384, 128, 2_000_000, "Local events that may wait to be stored."),
    "analysisd.events_mb": Option(64, 16, 65_536, "Megabytes of local events that may wait for their analysis."),
    "analysisd.engines": Option(
        0, 0, 64, "Cores for the analysis; 0: all but one for the rest, at most 9; 1: no helper processes."
    ),
    "analysisd.debug": Option(0, 0, 2, "Detail of the log of the analysis."),
    "csyslogd.debug": Option(0, 0, 2, "Detail of the log of alerts sent by syslog."),
    "integratord.debug": Option(0, 0, 2, "Detail of the log of alerts handed to integrations and indexers."),
    "maild.debug": Option(0, 0, 2, "Detail of the log of alerts sent by mail."),
    "maild.delay_seconds": Option(5, 0, 3600, "Seconds that an alert waits for others, to come in one mail."),
    "db.debug": Option(0, 0, 2, "Detail of the log of what agents report of their hosts."),
    "apid.debug": Option(0, 0, 2, "Detail of the API's log."),
    "remoted.recv_counter_flush": Option(128, 10, 999_999, "Messages after which counters of agents are written."),
    "remoted.comp_average_printout": Option(19_999, 10, 999_999, "Kept for existing files."),
    "remoted.verify_msg_id": Option(0, 0, 1, "Refuse messages of agents that come twice; 0: only warn."),
    "remoted.pass_empty_keyfile": Option(1, 0, 1, "Kept for existing files: a node starts without agents too."),
    "remoted.worker_pool": Option(4, 1, 16, "Kept for existing files: one loop receives the messages of all agents."),
    "remoted.sender_pool": Option(8, 1, 64, "Agents that get their shared files at the same time."),
    "remoted.receive_chunk": Option(4096, 1024, 16_384, "Bytes read of an agent before others have their turn."),
    "remoted.send_chunk": Option(4096, 512, 16_384, "Kept for existing files: the system cuts what is sent."),
    "remoted.send_buffer_size": Option(131_072, 65_536, 1_048_576, "Bytes that may wait to be sent to an agent."),
    "remoted.send_timeout_to_retry": Option(1, 1, 60, "Seconds before a message that did not fit is tried again."),
    "remoted.buffer_relax": Option(1, 0, 2, "Kept for existing files."),
    "remoted.tcp_keepidle": Option(30, 1, 7200, "Seconds of silence before the system probes a connection."),
    "remoted.tcp_keepintvl": Option(10, 1, 100, "Seconds between two such probes."),
    "remoted.tcp_keepcnt": Option(3, 1, 50, "Probes without an answer that end a connection."),
    "remoted.recv_timeout": Option(1, 1, 60, "Kept for existing files."),
    "remoted.rlimit_nofile": Option(458_752, 1024, 1_048_576, "Files, and so connections, that may be open."),
    "remoted.keyupdate_interval": Option(10, 1, 3600, "Kept for existing files: new keys count at once."),
    "remoted.shared_reload": Option(10, 1, 18_000, "Seconds between two looks at the shared files of groups."),
    "remoted.merge_shared": Option(1, 0, 1, "Merge the files of groups for agents."),
    "remoted.disk_storage": Option(0, 0, 1, "Kept for existing files."),
    "remoted.guess_agent_group": Option(0, 0, 1, "Put a new agent into the group whose files it has."),
    "remoted.request_pool": Option(1024, 1, 4096, "Requests to agents at the same time."),
    "remoted.request_timeout": Option(10, 1, 600, "Seconds that a request waits for its turn."),
    "remoted.response_timeout": Option(60, 1, 3600, "Seconds that an agent has to answer a request."),
    "remoted.request_rto_sec": Option(1, 0, 60, "Seconds before a request over UDP is sent again."),
    "remoted.request_rto_msec": Option(0, 0, 999, "Milliseconds in addition to these seconds."),
    "remoted.max_attempts": Option(4, 1, 16, "Times that a request is sent over UDP."),
    "remoted.state_interval": Option(5, 0, 86_400, "Seconds between two looks for counters no longer needed; 0: none."),
    "remoted.hold_seconds": Option(20, 1, 50, "Seconds that an agent with too many events is not read at a time."),
    "remoted.events_mb": Option(256, 16, 65_536, "Megabytes of events that may wait for their analysis."),
    "db.max_file_entries": Option(
        200_000, 1000, 10_000_000, "Files and registry entries of an agent that are stored; further ones are refused."
    ),
    "db.max_rows": Option(
        50_000, 1000, 10_000_000, "Rows of an agent in each table of its inventory; further ones are refused."
    ),
    "db.max_agent_mb": Option(
        256, 16, 65_536, "Megabytes that an agent may have in the inventory; further rows are refused."
    ),
    "db.solved_vulnerability_days": Option(
        30, 0, 3650, "Days for which vulnerabilities that are solved are shown as obsolete."
    ),
    "modulesd.debug": Option(0, 0, 2, "Detail of the log of groups, agents and upgrades."),
    "modulesd.response_max_age": Option(
        600, 1, 86_400, "Seconds after which an alert is not answered any longer by an active response."
    ),
    "remoted.debug": Option(0, 0, 2, "Detail of the log of the agents' connections."),
    "daemons.stop_timeout": Option(30, 1, 600, "Seconds that a daemon has to stop before it is killed."),
    "daemons.watchdog_ms": Option(2000, 100, 60_000, "Milliseconds between two looks whether a daemon answers."),
    "daemons.watchdog_misses": Option(
        8, 0, 1000, "Looks in a row without an answer after which a daemon is killed and started again; 0: never."
    ),
    "monitord.monitor_agents": Option(1, 0, 1, "Find agents that are silent."),
    "monitord.delete_old_agents": Option(0, 0, 9600, "Minutes of silence after which agents are removed; 0: never."),
    "monitord.day_wait": Option(10, 0, 600, "Seconds after midnight before logs are rotated."),
    "monitord.keep_log_days": Option(31, 0, 500, "Days that rotated logs are kept; 0: without limit."),
    "monitord.size_rotate": Option(512, 0, 4096, "Megabytes of a log that start a rotation; 0: by day only."),
    "monitord.daily_rotations": Option(12, 1, 256, "Rotations by size on one day."),
    "monitord.compress": Option(1, 0, 1, "Compress rotated logs."),
    "monitord.sign": Option(1, 0, 1, "Write checksums of the alerts and archives of past days."),
}


class InternalOptions:
    """Values of all options. ``warnings`` are for the log at start."""

    def __init__(self, values: Mapping[str, int], warnings: tuple[str, ...] = ()) -> None:
        self._values = {name: option.default for name, option in OPTIONS.items()} | dict(values)
        self.warnings = warnings

    @classmethod
    def defaults(cls) -> "InternalOptions":
        """Every option at its default."""
        return cls({})

    def get(self, name: str) -> int:
        """Value of ``section.name``. Raises SecmonError 1108 when no file defines it."""
        try:
            return self._values[name]
        except KeyError:
            raise SecmonError(1108, name) from None

    def with_overrides(self, values: Mapping[str, int]) -> "InternalOptions":
        """A copy with other values. Raises SecmonError 1108 (unknown name) or ConfigError 1110 (out of range)."""
        for name, value in values.items():
            if name not in OPTIONS:
                raise SecmonError(1108, name)
            _check_range("overrides", name, value)
        return InternalOptions(self._values | dict(values), self.warnings)


def load_internal_options(paths: Paths) -> InternalOptions:
    """Read both files. Raises ConfigError 1107 (the shipped file is missing), 1109 (no number), 1110 (out of range).

    Options that this version does not use are kept, so that files of other versions can stay; one warning names them.
    """
    values: dict[str, int] = {}
    warnings: list[str] = []
    for path in (paths.internal_options, paths.local_internal_options):
        unused = []
        for place, content in _lines(path, required=path == paths.internal_options):
            name, value = _option(place, content)
            values[name] = value
            if name not in OPTIONS:
                unused.append(name)
        if unused:
            warnings.append(f"{path}: not used by this version: {', '.join(unused)}")
    return InternalOptions(values, tuple(warnings))


def check_internal_options(paths: Paths) -> list[ConfigError]:
    """Everything that is wrong with both files; see ``load_internal_options``, which stops at the first."""
    found: list[ConfigError] = []
    for path in (paths.internal_options, paths.local_internal_options):
        try:
            lines = list(_lines(path, required=path == paths.internal_options))
        except ConfigError as error:
            found.append(error)
            continue
        for place, content in lines:
            try:
                _option(place, content)
            except ConfigError as error:
                found.append(error)
    return found


def unknown_options(paths: Paths) -> list[str]:
    """A sentence for each option that this version does not use, with what may have been meant."""
    found = []
    for path in (paths.internal_options, paths.local_internal_options):
        try:
            lines = list(_lines(path, required=False))
        except ConfigError:
            continue  # ``check_internal_options`` reports it
        for place, content in lines:
            match = _LINE.fullmatch(content)
            if match is not None and match[1] not in OPTIONS:
                close = get_close_matches(match[1], OPTIONS, n=1, cutoff=0.75)
                meant = f"; did you mean {close[0]}?" if close else ""
                found.append(f"{place}: {match[1]}: not used by this version{meant}")
    return found


def _lines(path: Path, *, required: bool) -> Iterator[tuple[str, str]]:
    """Place (``file:line``) and content of the lines that say something."""
    try:
        text = read_regular(path, follow=True).decode("utf-8", "replace")
    except FileNotFoundError:
        if required:
            raise ConfigError(str(path), "file", MISSING, "the file shipped with the product", code=1107) from None
        return
    except OSError as error:
        raise ConfigError(str(path), "file", Fault(error.strerror), "a readable file", code=1107) from error
    for number, line in enumerate(text.split("\n"), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield f"{path}:{number}", content


def _option(place: str, content: str) -> tuple[str, int]:
    match = _LINE.fullmatch(content)
    if match is None:
        raise ConfigError(place, "line", content, "section.name=integer", code=1109)
    name, text = match[1], match[2]
    if not _INTEGER.fullmatch(text):
        raise ConfigError(place, name, text, "a whole number", code=1109)
    _check_range(place, name, int(text))
    return name, int(text)


def _check_range(place: str, name: str, value: int) -> None:
    option = OPTIONS.get(name)
    if option and not option.accepts(value):
        raise ConfigError(place, name, value, option.allowed, code=1110)


def internal_options_template() -> str:
    """Text of ``internal_options.conf``: every option with its default and explanation."""
    head = (
        "# Shipped with the product and replaced at upgrades: write your own values to local_internal_options.conf.\n"
    )
    return head + "".join(
        f"\n# {option.about} Allowed: {option.allowed}.\n{name}={option.default}\n" for name, option in OPTIONS.items()
    )


LOCAL_TEMPLATE = "# Your values win over internal_options.conf and survive upgrades. A line is section.name=integer\n"
