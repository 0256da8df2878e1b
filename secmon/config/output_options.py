"""Checks of the sections that send alerts on and answer them (manager.md 4.3)."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from secmon.common.errors import MISSING, Fault
from secmon.config.problems import Report
from secmon.config.values import BOOLEAN, HOST, NOT_EMPTY, PORT, TEXT, Check, choice, integer
from secmon.config.xml import Element

LOCATIONS: Mapping[str, str] = {
    "local": "local", "defined-agent": "defined-agent", "all": "all", "any": "all",
    "server": "server", "as": "server", "analysisd": "server", "analysis-server": "server",
}  # fmt: skip
"""Locations of active responses: what a section may say, in lower case, and the location that it means."""

LEVEL = integer(0, 16)
_RULES = Check(lambda text: re.fullmatch(r"\s*\d{1,8}(?:\s*[,\s]\s*\d{1,8})*\s*,?", text) is not None, "ids of rules")
_CONDITIONS: Mapping[str, Check] = {"level": LEVEL, "rule_id": _RULES, "group": NOT_EMPTY, "silences": BOOLEAN}
_TLS: Mapping[str, Check] = dict.fromkeys(("ca_store", "certificate", "key"), NOT_EMPTY)

EMAIL = Check(lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text.strip()) is not None, "an address name@domain")
_HOOKS = ("slack", "webhook")
"""Integrations that have no address of their own."""


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and not parts.username
        )
    except ValueError:
        return False


def _are_minutes(text: str) -> bool:
    return re.fullmatch(r"\s*\d{1,6}\s*(?:,\s*\d{1,6}\s*){0,4}", text) is not None


_URL = Check(_is_url, "an address beginning with http:// or https://, without user and password")

Options: TypeAlias = Mapping[str, "Check | Options"]

OUTPUT_OPTIONS: Mapping[str, Options] = {
    "syslog_output": {
        **_CONDITIONS,
        **_TLS,
        "location": NOT_EMPTY,
        "server": HOST,
        "port": PORT,
        "protocol": choice("udp", "tcp", "tls"),
        "rfc": choice("3164", "5424"),
        "format": choice("default", "cef", "splunk", "json"),
        "use_fqdn": BOOLEAN,
    },
    "integration": {
        **_CONDITIONS,
        **_TLS,
        **dict.fromkeys(("hook_url", "api_key"), TEXT),
        **dict.fromkeys(("event_location", "template", "content_type"), NOT_EMPTY),
        "name": Check(lambda text: re.fullmatch(r"\w[\w.-]{0,127}", text, re.ASCII) is not None, "a name of a program"),
        "alert_format": choice("json"),
        "options": Check(_is_object, "a JSON object"),
        "secrets": choice("arguments", "environment"),
        "max_log": integer(165, 1024),
        "timeout": integer(1, 600),
        "retries": integer(0, 100),
    },
    "command": {
        "name": Check(lambda text: bool(text) and not text.startswith("!"), "a name that does not begin with !"),
        "executable": Check(lambda text: bool(text) and "/" not in text, "the name of a program, without a folder"),
        "timeout_allowed": BOOLEAN,
        "extra_args": TEXT,
        "expect": TEXT,
    },
    "active-response": {
        "command": NOT_EMPTY,
        "location": Check(lambda text: text.lower() in LOCATIONS, ", ".join(LOCATIONS)),
        "agent_id": integer(1),
        "level": LEVEL,
        "rules_id": _RULES,
        "rules_group": NOT_EMPTY,
        "timeout": integer(),
        "disabled": BOOLEAN,
        "repeated_offenders": Check(_are_minutes, "up to 5 numbers of minutes, separated by commas"),
        **dict.fromkeys(("ca_store", "ca_verification"), TEXT),
    },
    "email_alerts": {
        **_CONDITIONS,
        "email_to": EMAIL,
        "event_location": NOT_EMPTY,
        "format": choice("full", "sms", "default"),
        **dict.fromkeys(("do_not_delay", "do_not_group"), TEXT),
    },
    "indexer": {
        **_CONDITIONS,
        "enabled": BOOLEAN,
        "alerts": BOOLEAN,
        "location": NOT_EMPTY,
        **dict.fromkeys(("username", "password"), TEXT),
        "hosts": {"host": _URL},
        "ssl": {"certificate_authorities": {"ca": NOT_EMPTY}, "certificate": NOT_EMPTY, "key": NOT_EMPTY},
    },
}
"""Options of each section, and what they allow."""

MAIL_OPTIONS: Mapping[str, Check] = {
    "smtp_port": PORT,
    "smtp_encryption": choice("none", "starttls", "required", "tls"),
    **dict.fromkeys(("smtp_user", "smtp_password", "smtp_ca_store"), NOT_EMPTY),
}
"""Options of the section ``global`` beyond those of other managers."""


def _check_syslog(sections: list[Element], report: Report) -> None:
    for section in sections:
        require(section, report, "server")
        protocol = option(section, "protocol") or "udp"
        for name in _TLS:
            if option(section, name) and protocol != "tls":
                report.error(
                    "syslog_output", name, option(section, name), "no file, unless the protocol is tls", section
                )


def _check_integrations(sections: list[Element], report: Report) -> None:
    for section in sections:
        require(section, report, "name")
        name, url = option(section, "name"), option(section, "hook_url")
        if name in _HOOKS and not _URL.test(url):
            report.error("integration", "hook_url", Fault("it is missing or no address"), _URL.allowed, section)
        if name == "pagerduty":
            require(section, report, "api_key")


def _check_commands(sections: list[Element], report: Report) -> None:
    for section in sections:
        if section.name == "command":  # there is a module of this name, too
            require(section, report, "name", "executable")


def _check_responses(sections: list[Element], report: Report) -> None:
    for section in sections:
        if not option(section, "command"):
            continue  # of this host's own agent
        require(section, report, "location")
        if option(section, "location").lower() == "defined-agent":
            require(section, report, "agent_id")
        if not any(option(section, name) for name in ("level", "rules_id", "rules_group")):
            report.warn("active-response", "it answers no alert without level, rules_id or rules_group", section)


def _check_mail(sections: list[Element], report: Report) -> None:
    for section in sections:
        require(section, report, "email_to")


def _check_indexer(sections: list[Element], report: Report) -> None:
    for section in sections:
        hosts = any(one.children for one in section.children if one.name == "hosts")
        if option(section, "alerts") == "yes" and not hosts:
            report.error("indexer", "hosts.host", MISSING, "at least one address", section)


def require(section: Element, report: Report, *names: str) -> None:
    """Report options that are missing or empty."""
    for name in names:
        if not option(section, name):
            report.error(section.name, name, MISSING, "this option", section)


def option(section: Element, name: str) -> str:
    """The text of an option; of several the last."""
    found = [(each.text or "").strip() for each in section.children if each.name == name]
    return found[-1] if found else ""


OUTPUT_EXTRAS: Mapping[str, Callable[[list[Element], Report], None]] = {
    "syslog_output": _check_syslog,
    "integration": _check_integrations,
    "email_alerts": _check_mail,
    "command": _check_commands,
    "active-response": _check_responses,
    "indexer": _check_indexer,
}
"""Checks of whole sections."""
