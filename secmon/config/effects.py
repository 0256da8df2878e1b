"""Sections and options of a main configuration that have no effect in this version: they cause warnings.

Remove an entry when its section or option gets an effect. Agents read several of these sections in the files of their
groups.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from secmon.config.problems import Report
from secmon.config.xml import Element

Asked = Callable[[Element, Element], bool]
"""Whether a section, and one of its options, would have an effect."""

LINE_FORMATS = frozenset(
    {"syslog", "generic", "json", "snort-full", "snort-fast", "squid", "apache", "iis", "nmapg", "mysql_log"}
    | {"postgresql_log"}
)
"""Formats of local files that are read line by line: all others are not read."""


class Idle(NamedTuple):
    """``what`` does not happen. ``asked``: when the option would cause it."""

    what: str
    asked: Asked = lambda section, option: True


_IMPORTED = "advisories are those that were imported: secmon import osv"


def _says(option: Element, *values: str) -> bool:
    return (option.text or "").strip().lower() in values


def _says_yes(section: Element, option: Element) -> bool:
    return _says(option, "yes")


def _secure(section: Element, option: Element) -> bool:
    return not any(each.name == "connection" and _says(each, "syslog") for each in section.children)


def _not_lines(section: Element, option: Element) -> bool:
    return not _says(option, *LINE_FORMATS)


def _without_alerts(section: Element, option: Element) -> bool:
    return not any(each.name == "alerts" and _says_yes(section, each) for each in section.children)


_NOT_LOCATED = "addresses are not located"
_OF_THE_RULE = "alerts have the level of their rule"
_OF_AGENTS = "agents read it from their own configuration"
_TAKEN_WHOLE = "every line is taken, as it is and from the file's end at the first start"

SECTIONS: Mapping[str, str] = {
    "database_output": "no alert is written to a database",
    "fluent-forward": "nothing is forwarded",
    "reports": "no report is made",
    "agentless": "hosts without an agent are not looked at",
    "syscheck": "the files of this host are not watched",
    "rootcheck": "this host is not searched for rootkits",
    "sca": "the configuration of this host is not assessed",
    "open-scap": "the configuration of this host is not assessed",
    "cis-cat": "the configuration of this host is not assessed",
    "syscollector": "no inventory of this host is taken",
    "osquery": "no queries run on this host",
    "wodle command": "the command is not run",
    "docker-listener": "events of containers on this host are not read",
    **dict.fromkeys(
        ("aws-s3", "azure-logs", "gcp-pubsub", "gcp-bucket", "github", "office365", "ms-graph"),
        "nothing is fetched from the service",
    ),
    "labels": "events of this host get no labels",
    "socket": "nothing is sent to the socket",
    **dict.fromkeys(("client", "client_buffer"), _OF_AGENTS),
    "key-polling": "keys are asked for where auth.key_request says",
    "wdb": "no backups are made",
}
"""Sections without any effect. A disabled section causes no warning."""

OPTIONS: Mapping[str, Mapping[str, Idle]] = {
    "indexer": {"hosts": Idle("no alert is sent without alerts yes", _without_alerts)},
    "vulnerability-detection": {
        "index-status": Idle("nothing is sent to an indexer", _says_yes),
        **dict.fromkeys(("feed-update-interval", "offline-url", "cti-url"), Idle(_IMPORTED)),
    },
    "vulnerability-detector": {"provider": Idle(_IMPORTED)},
    "global": {
        "prelude_output": Idle("no alert is sent on", _says_yes),
        "zeromq_output": Idle("no alert is sent on", _says_yes),
        "geoipdb": Idle(_NOT_LOCATED),
        **dict.fromkeys(("integrity_checking", "rootkit_detection", "host_information"), Idle(_OF_THE_RULE)),
        "queue_size": Idle("the queue is as long as the internal option analysisd.decode_event_queue_size says"),
        "cti-url": Idle("no such service is asked"),
    },
    "alerts": {"use_geoip": Idle(_NOT_LOCATED, _says_yes)},
    "remote": {
        **dict.fromkeys(("allowed-ips", "denied-ips"), Idle("agents connect by the addresses of their keys", _secure)),
        "rids_closing_time": Idle("no files of counters are kept open"),
    },
    "localfile": {
        "log_format": Idle("only files with one event in each line are read", _not_lines),
        **dict.fromkeys(("ignore", "restrict", "only-future-events", "exclude", "age"), Idle(_TAKEN_WHOLE)),
        **dict.fromkeys(("label", "out_format", "target", "ignore_binaries"), Idle(_TAKEN_WHOLE)),
    },
    "agent-upgrade": dict.fromkeys(
        (
            *("notification_wait_start", "notification_wait_max", "notification_wait_factor"),
            *("ca_verification", "ca_store"),
        ),
        Idle(_OF_AGENTS),
    ),
    "cluster": dict.fromkeys(
        ("socket_timeout", "connection_timeout"), Idle("waits are bounded by the internal options clusterd.*")
    ),
}
"""Options without effect in sections that have one."""


def warn_of_idle(sections: Mapping[str, list[Element]], report: Report) -> None:
    """One warning for each kind of section and option, at the first place that would have an effect."""
    for key, elements in sections.items():
        for name in dict.fromkeys(_key(key, each) for each in elements):
            active = [each for each in elements if _key(key, each) == name and not _disabled(each)]
            if active and name in SECTIONS:
                _warn(report, name, "", SECTIONS[name], active[0])
            for option, idle in OPTIONS.get(name, {}).items():
                asked = [(section, each) for section in active for each in section.children if each.name == option]
                first = next((each for section, each in asked if idle.asked(section, each)), None)
                if first is not None:
                    _warn(report, name, option, idle.what, first)


def _key(name: str, section: Element) -> str:
    """The key in the tables: there are commands of responses, and a module of this name."""
    return "wodle command" if section.name == "wodle" and name == "command" else name


def _disabled(section: Element) -> bool:
    return any(
        (each.name == "disabled" and _says(each, "yes")) or (each.name == "enabled" and _says(each, "no"))
        for each in section.children
    )


def _warn(report: Report, section: str, option: str, what: str, at: Element) -> None:
    report.warn(section, f"{f'{option} has ' if option else ''}no effect in this version: {what}", at)
