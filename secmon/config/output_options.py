"""Checks of the sections that send alerts on and answer them (manager.md 4.3)."""

import re
from collections.abc import Callable, Mapping

from secmon.common.errors import MISSING
from secmon.config.problems import Report
from secmon.config.values import BOOLEAN, HOST, NOT_EMPTY, PORT, Check, choice, integer
from secmon.config.xml import Element

LEVEL = integer(0, 16)
_RULES = Check(lambda text: re.fullmatch(r"\s*\d{1,8}(?:\s*[,\s]\s*\d{1,8})*\s*,?", text) is not None, "ids of rules")
_CONDITIONS: Mapping[str, Check] = {"level": LEVEL, "rule_id": _RULES, "group": NOT_EMPTY}
_TLS: Mapping[str, Check] = dict.fromkeys(("ca_store", "certificate", "key"), NOT_EMPTY)

OUTPUT_OPTIONS: Mapping[str, Mapping[str, Check]] = {
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
}
"""Options of each section, and what they allow."""


def _check_syslog(sections: list[Element], report: Report) -> None:
    for section in sections:
        require(section, report, "server")
        protocol = option(section, "protocol") or "udp"
        for name in _TLS:
            if option(section, name) and protocol != "tls":
                report.error(
                    "syslog_output", name, option(section, name), "no file, unless the protocol is tls", section
                )


def require(section: Element, report: Report, *names: str) -> None:
    """Report options that are missing or empty."""
    for name in names:
        if not option(section, name):
            report.error(section.name, name, MISSING, "this option", section)


def option(section: Element, name: str) -> str:
    """The text of an option; of several the last."""
    found = [(each.text or "").strip() for each in section.children if each.name == name]
    return found[-1] if found else ""


OUTPUT_EXTRAS: Mapping[str, Callable[[list[Element], Report], None]] = {"syslog_output": _check_syslog}
"""Checks of whole sections."""
