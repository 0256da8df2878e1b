"""Checks of the main configuration: section names, options and values (manager.md 4).

Options are checked for the sections in ``OPTIONS``; the other known sections are kept as they are for the agents and
tools that read them.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from secmon.common.download import DownloadError, check_url
from secmon.common.errors import MISSING, UNKNOWN
from secmon.config.agent_versions import is_agent_version
from secmon.config.as_json import MAIN_ROOT, SECTIONS, section_name
from secmon.config.output_options import EMAIL, MAIL_OPTIONS, OUTPUT_EXTRAS, OUTPUT_OPTIONS
from secmon.config.problems import Report
from secmon.config.silent_source_options import SILENT_SOURCE_EXTRAS, SILENT_SOURCE_OPTIONS
from secmon.config.values import (
    BOOLEAN,
    HOST,
    NETWORK,
    NOT_EMPTY,
    PORT,
    TEXT,
    Check,
    choice,
    duration,
    integer,
    or_zero,
    seconds,
    size,
)
from secmon.config.xml import Element

Options: TypeAlias = Mapping[str, "Check | Options"]

OTHER_SECTIONS = frozenset(
    {"client_buffer", "socket", "rule_test", "logging", "wdb", "task-manager", "agent-upgrade", "gcp-pubsub"}
    | {"gcp-bucket", "github", "office365", "ms-graph", "fluent-forward", "vulnerability-detector", "key-polling"}
)
WODLES = frozenset(
    {"syscollector", "open-scap", "cis-cat", "osquery", "command", "aws-s3", "azure-logs", "docker-listener"}
    | {"vulnerability-detector", "agent-upgrade", "key-polling", "task-manager"}
)

TASK_TIMEOUT = 900
"""Seconds, where nothing is configured."""

_FORMATS = {"plain", "json"}
_ROTATION = Check(lambda text: 600 <= (seconds(text) or 0) <= 86400, "600 seconds to one day, suffix s, m, h or d")
_SIZE = Check(
    lambda text: 1_000_000 <= (size(text) or 0) <= 1 << 40, "1000000 bytes to one tebibyte, suffix B, K, M or G"
)
_LOG_FORMAT = Check(
    lambda text: {part.strip() for part in text.split(",")} <= _FORMATS, "plain, json or both with a comma"
)
_REPOSITORY = Check(
    lambda text: re.fullmatch(r"[^\s\x00-\x1f?#]{1,2048}", text) is not None and "/.." not in text,
    "an address beginning with http:// or https://, a host with a path, or a folder beginning with /",
)


def _is_address(text: str) -> bool:
    try:
        check_url(text)
    except DownloadError:
        return False
    return text.isascii()


ADDRESS = Check(_is_address, "an address beginning with http:// or https://, without user and password")
_THREADS = Check(lambda text: text == "auto" or integer().test(text), "auto, or a whole number")
_FACTOR = Check(lambda text: re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", text) is not None, "a number")
_AGENT_VERSION = Check(is_agent_version, "a version such as 4.14")
_DEPRECATED = Check(TEXT.test, "deprecated")  # accepted, with a warning

OPTIONS: Mapping[str, Options] = {
    "global": {
        **dict.fromkeys(
            ("email_notification", "logall", "logall_json", "jsonout_output", "alerts_log", "prelude_output"), BOOLEAN
        ),
        **dict.fromkeys(("zeromq_output", "update_check"), BOOLEAN),
        **dict.fromkeys(("email_from", "email_reply_to", "email_idsname", "smtp_server", "helo_server"), TEXT),
        **dict.fromkeys(("prelude_profile", "zeromq_uri", "zeromq_server_cert", "zeromq_client_cert", "geoipdb"), TEXT),
        **dict.fromkeys(("integrity_checking", "rootkit_detection", "host_information", "stats"), integer()),
        "email_to": EMAIL,
        **MAIL_OPTIONS,
        "email_maxperhour": integer(1, 1_000_000),
        "email_log_source": choice("alerts.log", "alerts.json"),
        "prelude_log_level": integer(),
        "update_check_url": ADDRESS,
        "memory_size": integer(2048),
        "white_list": NOT_EMPTY,
        "custom_alert_output": TEXT,
        "rotate_interval": or_zero(_ROTATION),
        "max_output_size": or_zero(_SIZE),
        "queue_size": integer(1),
        "agents_disconnection_time": duration(1),
        "agents_disconnection_alert_time": duration(0),
        "limits": {"eps": {"maximum": integer(0, 100_000), "timeframe": integer(1, 3600)}},
        "cti-url": NOT_EMPTY,
        "compress_alerts": _DEPRECATED,
    },
    "alerts": {
        **dict.fromkeys(("log_alert_level", "email_alert_level"), integer()),
        **dict.fromkeys(("use_geoip", "store"), BOOLEAN),
        "store_days": integer(0, 36_500),
        "store_size": or_zero(_SIZE),
    },
    "remote": {
        "connection": choice("secure", "syslog"),
        "port": PORT,
        "protocol": NOT_EMPTY,
        "ipv6": BOOLEAN,
        "local_ip": HOST,
        "allowed-ips": NETWORK,
        "denied-ips": NETWORK,
        "queue_size": integer(1),
        "rids_closing_time": duration(1),
        "connection_overtake_time": integer(0, 3600),
        "agents": {"allow_higher_versions": BOOLEAN, "highest_version": _AGENT_VERSION},
    },
    "auth": {
        **dict.fromkeys(("disabled", "ipv6", "use_source_ip", "purge", "use_password", "ssl_verify_host"), BOOLEAN),
        **dict.fromkeys(("ssl_auto_negotiate", "remote_enrollment"), BOOLEAN),
        **dict.fromkeys(("ssl_agent_ca", "ssl_manager_cert", "ssl_manager_key"), TEXT),
        **dict.fromkeys(("force_insert", "force_time", "limit_maxagents"), _DEPRECATED),
        "port": PORT,
        "ciphers": NOT_EMPTY,
        "force": {
            "enabled": BOOLEAN,
            "key_mismatch": BOOLEAN,
            "disconnected_time": duration(),
            "after_registration_time": duration(),
        },
        "agents": {"allow_higher_versions": BOOLEAN},
        "key_request": {
            "enabled": BOOLEAN,
            "exec_path": TEXT,
            "socket": TEXT,
            "timeout": integer(1),
            "threads": integer(1, 32),
            "queue_size": integer(1, 220_000),
        },
    },
    "logging": {"log_format": _LOG_FORMAT},
    "ruleset": dict.fromkeys(
        ("decoder_dir", "rule_dir", "decoder_include", "rule_include", "decoder_exclude", "rule_exclude", "list"),
        NOT_EMPTY,
    ),
    "rule_test": {
        "enabled": BOOLEAN,
        "threads": _THREADS,
        "max_sessions": integer(),
        "session_timeout": duration(),
    },
    "agent-upgrade": {
        "enabled": BOOLEAN,
        "wpk_repository": _REPOSITORY,
        "chunk_size": integer(64, 32_768),
        "max_threads": integer(0, 256),
        # of agents, whose files are often the manager's
        "notification_wait_start": duration(1),
        "notification_wait_max": duration(1),
        "notification_wait_factor": _FACTOR,
        "ca_verification": {"enabled": BOOLEAN, "ca_store": NOT_EMPTY},
        "ca_store": NOT_EMPTY,
    },
    "task-manager": {"task_timeout": duration(1), "cleanup_time": duration(1)},
    **SILENT_SOURCE_OPTIONS,
    **OUTPUT_OPTIONS,
}


def check_sections(document: Element, report: Report) -> dict[str, list[Element]]:
    """Check every section of every main root; returns the sections by name, in document order."""
    found: dict[str, list[Element]] = {}
    for root in document.children:
        if root.name == MAIN_ROOT:
            for section in root.children:
                name = section_name(section)
                if name is None:
                    report.error("wodle", "name", MISSING, f"one of {', '.join(sorted(WODLES))}", section)
                else:
                    found.setdefault(name, []).append(section)
                    _check_name(name, section, report)
    for name, sections in found.items():
        for section in sections:
            if name in OPTIONS and section.name == name:
                _check_options(name, "", section, OPTIONS[name], report)
    for name, extra in _EXTRAS.items():
        extra(found.get(name, []), report)
    if not any(root.name == MAIN_ROOT for root in document.children):
        report.error("", f"<{MAIN_ROOT}>", MISSING, "one such element, or several")
    return found


def _check_name(name: str, section: Element, report: Report) -> None:
    if section.name == "wodle":
        if name not in WODLES:
            report.error("wodle", "name", name, ", ".join(sorted(WODLES)), section)
    elif name not in SECTIONS and name not in OTHER_SECTIONS:
        report.error(name, "", UNKNOWN, "a documented section name", section)


def _check_options(section: str, prefix: str, element: Element, known: Options, report: Report) -> None:
    for option in element.children:
        name, value = prefix + option.name, option.text or ""
        check = known.get(option.name)
        if check is None:
            report.error(section, name, UNKNOWN, f"the options {', '.join(known)}", option)
        elif not isinstance(check, Check):
            _check_options(section, f"{name}.", option, check, report)
        elif check is _DEPRECATED:
            report.warn(section, f"{name} is deprecated and ignored", option)
        elif option.has_children:
            report.error(section, name, f"<{next(option.children).tag}>", check.allowed, option)
        elif not check.test(value.strip()):
            report.error(section, name, value, check.allowed, option)


def _texts(section: Element, name: str) -> list[str]:
    return [(option.text or "").strip() for option in section.children if option.name == name]


def _check_global(sections: list[Element], report: Report) -> None:
    asking = [option for section in sections for option in section.children if option.name == "update_check"]
    addressed = any(_texts(section, "update_check_url") for section in sections)
    if asking and (asking[-1].text or "").strip() == "yes" and not addressed:  # of several the last is in force
        report.warn("global", "update_check has no effect without update_check_url", asking[-1])
    written = [one for section in sections for one in section.children if one.name == "jsonout_output"]
    if written and (written[-1].text or "").strip() == "no":
        report.warn("global", "alerts are not delivered to outputs without jsonout_output", written[-1])
    notifying = [one for section in sections for one in section.children if one.name == "email_notification"]
    needed = ("email_to", "email_from", "smtp_server")
    missing = [name for name in needed if not any(any(_texts(section, name)) for section in sections)]
    if notifying and (notifying[-1].text or "").strip() == "yes" and missing:
        report.warn("global", f"no mail is sent without {', '.join(missing)}", notifying[-1])
    for section in sections:
        for limits in section.children:
            for eps in limits.children if limits.name == "limits" else ():
                if eps.name == "eps" and not _texts(eps, "maximum"):
                    report.error("global", "limits.eps.maximum", MISSING, "a whole number, 0 to 100000", eps)


def _check_remote(sections: list[Element], report: Report) -> None:
    secure = 0
    for section in sections:
        connections = _texts(section, "connection")
        if not connections:
            report.error("remote", "connection", MISSING, "secure, syslog", section)
            continue
        secure += connections[-1] == "secure"
        if connections[-1] == "secure" and secure > 1:
            report.error("remote", "connection", "secure", "one section with a secure connection", section)
        words = {word.strip().lower() for value in _texts(section, "protocol") for word in value.split(",")}
        for word in sorted(words - {"tcp", "udp"}):
            report.warn("remote", f"the protocol {word!r} is not known and ignored", section)
        if connections[-1] == "syslog":
            if words >= {"tcp", "udp"}:
                report.error("remote", "protocol", "tcp, udp", "tcp or udp for a syslog connection", section)
            if not _texts(section, "allowed-ips"):
                report.error("remote", "allowed-ips", MISSING, "at least one address for a syslog connection", section)


def _check_tasks(sections: list[Element], report: Report) -> None:
    for section in sections:
        timeout, kept = ([*map(seconds, _texts(section, name))] for name in ("task_timeout", "cleanup_time"))
        if kept and (kept[-1] or 0) < ((timeout or [None])[-1] or TASK_TIMEOUT):
            report.error("task-manager", "cleanup_time", f"{kept[-1]} s", "no less than task_timeout", section)


_OF_LOCAL_FILES = frozenset(
    {"log_format", "location", "command", "frequency", "alias", "only-future-events", "query", "label", "target"}
    | {"out_format", "reconnect_time", "age", "exclude", "ignore_binaries", "ignore", "restrict", "multiline_regex"}
    | {"filter"}
)


def _check_local_files(sections: list[Element], report: Report) -> None:
    """Warnings only: what cannot be read is left out at a start, too."""
    for section in sections:
        for option in section.children:
            if option.name not in _OF_LOCAL_FILES:
                report.warn("localfile", f"the option {option.name} is not known and ignored", option)
        if not any(_texts(section, "location")) and not any(_texts(section, "command")):
            report.warn("localfile", "nothing is read: the section has no location", section)


_EXTRAS: Mapping[str, Callable[[list[Element], Report], None]] = {
    "global": _check_global,
    "localfile": _check_local_files,
    "remote": _check_remote,
    "task-manager": _check_tasks,
    **OUTPUT_EXTRAS,
    **SILENT_SOURCE_EXTRAS,
}
