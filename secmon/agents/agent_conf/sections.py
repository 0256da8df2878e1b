"""Sections of ``agent.conf`` with their options, attributes and values (manager.md 4.3 to 4.6)."""

from collections.abc import Mapping

from secmon.agents.agent_conf.modules import MODULE_SECTIONS
from secmon.agents.agent_conf.shapes import (
    DAYS,
    SCHEDULE,
    SIZE,
    TIME,
    Branch,
    Finding,
    Leaf,
    Options,
    Section,
    check_schedule,
    leaves,
    pattern,
)
from secmon.common.errors import MISSING
from secmon.config.values import BOOLEAN, NOT_EMPTY, TEXT, Check, choice, duration, integer

_SCAN_DAYS = pattern(rf"!?\s*({DAYS}|weekdays|weekends)(\s*[, ]\s*({DAYS}))*", "days of the week", any_case=True)
_PRIORITY = pattern(r"-?(1?[0-9])|-20", "-20 to 19")
_FREQUENCY = pattern(r"[0-9]{1,10}|hourly|daily", "a number of seconds, hourly or daily")
_FORMATS = (
    *("syslog", "generic", "json", "snort-full", "snort-fast", "apache", "iis", "squid", "nmapg", "mysql_log"),
    *("ossecalert", "mssql_log", "postgresql_log", "djb-multilog", "syslog-pipe", "command", "full_command"),
    *("audit", "multi-line-regex", "eventlog", "eventchannel", "macos"),
)
_LOG_FORMAT = pattern(
    rf"{'|'.join(_FORMATS)}|multi-line:\s*[1-9][0-9]{{0,4}}", f"{', '.join(_FORMATS)}, multi-line:NUMBER"
)
_MINUTES = pattern(r"[0-9]+(\s*,\s*[0-9]+)*", "minutes, separated by commas")
_REGEX = choice("pcre2", "osregex", "osmatch")
_SREGEX: Mapping[str, Check | None] = {"type": choice("sregex")}
_ARCH: Mapping[str, Check | None] = {"arch": choice("32bit", "64bit", "both")}
_CHECKS = (
    *("check_all", "check_sum", "check_md5sum", "check_sha1sum", "check_sha256sum", "check_size", "check_owner"),
    *("check_group", "check_perm", "check_mtime", "check_inode", "check_attrs"),
)

_WHAT: dict[str, Check | None] = {
    **dict.fromkeys((*_CHECKS, "realtime", "whodata", "report_changes", "follow_symbolic_link"), BOOLEAN),
    "restrict": None,
    "tags": None,
    "recursion_level": integer(0, 320),
    "diff_size_limit": SIZE,
}
_KEY_WHAT: dict[str, Check | None] = {
    **dict.fromkeys((*_CHECKS, "check_type", "report_changes"), BOOLEAN),
    **dict.fromkeys(("tags", "restrict_key", "restrict_value")),
    **_ARCH,
    "recursion_level": integer(0, 512),
    "diff_size_limit": SIZE,
}
_LIMIT = Branch({"enabled": Leaf(BOOLEAN), "entries": Leaf(integer(1, 2_147_483_647))})
_DIFF_LIMIT = Branch({"enabled": Leaf(BOOLEAN), "limit": Leaf(SIZE)})

_SYSCHECK: Options = {
    **leaves(BOOLEAN, "disabled", "scan_on_start", "alert_new_files", "skip_nfs", "skip_dev", "skip_sys", "skip_proc"),
    **leaves(BOOLEAN, "allow_remote_prefilter_cmd", "remove_old_diff", "restart_audit"),
    "frequency": Leaf(integer(1)),
    "scan_time": Leaf(TIME),
    "scan_day": Leaf(_SCAN_DAYS),
    "auto_ignore": Leaf(BOOLEAN, {"frequency": integer(1, 99), "timeframe": integer(0, 43_200)}),
    "max_files_per_second": Leaf(integer()),
    "file_limit": _LIMIT,
    "registry_limit": _LIMIT,
    "diff": Branch({"disk_quota": _DIFF_LIMIT, "file_size": _DIFF_LIMIT}),
    "database": Leaf(choice("disk", "memory")),
    "process_priority": Leaf(_PRIORITY),
    "max_eps": Leaf(integer(0, 1_000_000)),
    "synchronization": Branch(
        {
            **leaves(BOOLEAN, "enabled", "registry_enabled"),
            **leaves(duration(), "interval", "max_interval", "response_timeout"),
            "queue_size": Leaf(integer(2, 1_000_000)),
            "max_eps": Leaf(integer(0, 1_000_000)),
            "thread_pool": Leaf(integer(1, 128)),
        }
    ),
    "whodata": Branch(
        {
            **leaves(BOOLEAN, "startup_healthcheck", "restart_audit"),
            "audit_key": Leaf(TEXT),
            "queue_size": Leaf(integer(10, 1_048_576)),
            "provider": Leaf(choice("audit", "ebpf")),
        }
    ),
    "prefilter_cmd": Leaf(NOT_EMPTY),
    "ignore": Leaf(NOT_EMPTY, _SREGEX),
    "nodiff": Leaf(NOT_EMPTY, _SREGEX),
    "directories": Leaf(NOT_EMPTY, _WHAT),
    "windows_registry": Leaf(NOT_EMPTY, _KEY_WHAT),
    "registry_ignore": Leaf(NOT_EMPTY, {**_SREGEX, **_ARCH}),
    "registry_nodiff": Leaf(NOT_EMPTY, {**_SREGEX, **_ARCH}),
    "windows_audit_interval": Leaf(integer(1, 9999)),
}

_ROOTCHECK: Options = {
    **leaves(BOOLEAN, "disabled", "check_dev", "check_if", "check_pids", "check_ports", "check_sys", "check_files"),
    **leaves(BOOLEAN, "check_trojans", "check_unixaudit", "check_winaudit", "check_winapps", "check_winmalware"),
    **leaves(BOOLEAN, "check_policy", "skip_nfs", "scanall", "readall"),
    **leaves(NOT_EMPTY, "rootkit_files", "rootkit_trojans", "system_audit", "windows_audit", "windows_apps"),
    **leaves(NOT_EMPTY, "windows_malware", "base_directory"),
    "frequency": Leaf(integer(1)),
    "ignore": Leaf(NOT_EMPTY, _SREGEX),
}

_LOCALFILE: Options = {
    **leaves(NOT_EMPTY, "location", "command", "target", "exclude"),
    **leaves(duration(), "reconnect_time", "age"),
    "log_format": Leaf(_LOG_FORMAT),
    "frequency": Leaf(_FREQUENCY),
    "alias": Leaf(TEXT),
    "only-future-events": Leaf(BOOLEAN, {"max-size": SIZE}),
    "query": Leaf(TEXT, {"type": None, "level": choice("default", "info", "debug")}, markup=True),
    "label": Leaf(TEXT, {"key": NOT_EMPTY}, ("key",)),
    "out_format": Leaf(NOT_EMPTY, {"target": NOT_EMPTY}),
    "ignore_binaries": Leaf(BOOLEAN),
    "ignore": Leaf(NOT_EMPTY, {"type": _REGEX}),
    "restrict": Leaf(NOT_EMPTY, {"type": _REGEX}),
    "multiline_regex": Leaf(
        NOT_EMPTY,
        {
            "match": choice("start", "all", "end"),
            "replace": choice("no-replace", "none", "wspace", "tab"),
            "timeout": integer(1, 120),
        },
    ),
}


def _check_localfile(values: Mapping[str, str]) -> Finding | None:
    log_format = values.get("log_format", "")
    if log_format in ("command", "full_command"):
        return None if "command" in values else ("command", MISSING, f"a command, for the format {log_format}")
    if log_format and log_format != "macos" and "location" not in values:
        return "location", MISSING, f"a file or channel, for the format {log_format}"
    return None


_SCA: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "enabled", "scan_on_start", "skip_nfs"),
    "policies": Branch({"policy": Leaf(NOT_EMPTY, {"enabled": BOOLEAN})}),
}

_RESPONSE: Options = {
    "disabled": Leaf(BOOLEAN),
    "repeated_offenders": Leaf(_MINUTES),
    "ca_store": Leaf(NOT_EMPTY),
    "ca_verification": Leaf(BOOLEAN),
    "command": Leaf(NOT_EMPTY),
    "location": Leaf(NOT_EMPTY),
    "agent_id": Leaf(integer(1)),
    **leaves(NOT_EMPTY, "rules_id", "rules_group"),
    "level": Leaf(integer(0, 20)),
    "timeout": Leaf(integer()),
}

SECTIONS: Mapping[str, Section] = {
    "syscheck": Section(_SYSCHECK),
    "rootcheck": Section(_ROOTCHECK),
    "localfile": Section(_LOCALFILE, ("log_format",), _check_localfile),
    "client": Section({"force_reconnect_interval": Leaf(duration())}),
    "client_buffer": Section(
        {
            "disabled": Leaf(BOOLEAN),
            "queue_size": Leaf(integer(1, 100_000)),
            "events_per_second": Leaf(integer(1, 1000)),
        }
    ),
    "labels": Section({"label": Leaf(TEXT, {"key": NOT_EMPTY, "hidden": BOOLEAN}, ("key",))}),
    "sca": Section(_SCA, (), check_schedule),
    "active-response": Section(_RESPONSE),
    "socket": Section(
        {
            "name": Leaf(Check(lambda text: text not in ("", "agent"), "any name but agent")),
            "location": Leaf(NOT_EMPTY),
            "mode": Leaf(choice("udp", "tcp")),
            "prefix": Leaf(TEXT),
        },
        ("name", "location"),
    ),
    "logging": Section({"log_format": Leaf(pattern(r"(plain|json)(\s*,\s*(plain|json))?", "plain, json or both"))}),
    **MODULE_SECTIONS,
}

SERVER_SECTIONS = frozenset(
    {"global", "alerts", "remote", "auth", "command", "integration", "syslog_output", "email_alerts", "reports"}
    | {"database_output", "agentless", "ruleset", "rule_test", "cluster", "wdb", "indexer", "task-manager"}
    | {"vulnerability-detection", "vulnerability-detector"}
)
"""Sections of the main configuration of a server, which agents ignore."""
