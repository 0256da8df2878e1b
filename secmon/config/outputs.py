"""The sections of the main configuration that send alerts on (manager.md 4.3).

They are read from the file itself: its JSON form merges sections that are separate outputs here.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from secmon.common.paths import Paths
from secmon.config.as_json import MAIN_ROOT
from secmon.config.xml import Element, read_xml

SYSLOG_PORT, SYSLOG_TLS_PORT = 514, 6514


class AlertConditions(Struct, frozen=True, kw_only=True):
    """Which alerts: all conditions that are set must hold. ``group`` and ``location`` are OS_Match expressions."""

    level: int = 0
    rules: tuple[str, ...] = ()
    group: str = ""
    location: str = ""

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7.4)."""
        shown: dict[str, Any] = {"level": self.level}
        if self.rules:
            shown["rule_id"] = [int(one) for one in self.rules]
        return shown | {name: [text] for name, text in (("group", self.group), ("location", self.location)) if text}


class TlsFiles(Struct, frozen=True, kw_only=True):
    """Files for TLS, relative to the installation or absolute. Empty: the system's authorities, no certificate."""

    ca_store: str = ""
    certificate: str = ""
    key: str = ""


class SyslogOutput(Struct, frozen=True, kw_only=True):
    """One ``syslog_output`` section."""

    server: str
    port: int
    protocol: str = "udp"
    rfc: int = 3164
    format: str = "default"
    use_fqdn: bool = False
    conditions: AlertConditions = AlertConditions()
    tls: TlsFiles = TlsFiles()

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7.4, csyslog)."""
        return {
            "server": self.server,
            "port": self.port,
            **self.conditions.active_configuration(),
            "use_fqdn": "yes" if self.use_fqdn else "no",
            "format": self.format,
            "protocol": self.protocol,
            "rfc": self.rfc,
        }


class Outputs(Struct, frozen=True, kw_only=True):
    """All outputs of a node."""

    syslog: tuple[SyslogOutput, ...] = ()


def load_outputs(paths: Paths) -> Outputs:
    """The outputs of the node's main configuration. Raises ConfigError 1101."""
    return read_outputs(read_xml(paths.main_config))


def read_outputs(document: Element) -> Outputs:
    """The outputs of a document that ``xml.read_xml`` returned; a value that is not valid has its default."""
    roots = [root for root in document.children if root.name == MAIN_ROOT]

    def sections(name: str) -> list[Mapping[str, str]]:
        found = (each for root in roots for each in root.children if each.name == name)
        return [{one.name: (one.text or "").strip() for one in each.children} for each in found]

    return Outputs(syslog=tuple(_syslog(one) for one in sections("syslog_output") if one.get("server")))


def _syslog(options: Mapping[str, str]) -> SyslogOutput:
    protocol = options.get("protocol", "udp")
    return SyslogOutput(
        server=options["server"],
        port=_number(options, "port", SYSLOG_TLS_PORT if protocol == "tls" else SYSLOG_PORT),
        protocol=protocol,
        rfc=_number(options, "rfc", 3164),
        format=options.get("format", "default"),
        use_fqdn=options.get("use_fqdn") == "yes",
        conditions=_conditions(options, location="location"),
        tls=_tls(options),
    )


def _conditions(options: Mapping[str, str], *, location: str) -> AlertConditions:
    return AlertConditions(
        level=_number(options, "level", 0),
        rules=tuple(str(int(one)) for one in options.get("rule_id", "").replace(",", " ").split() if one.isdecimal()),
        group=options.get("group", ""),
        location=options.get(location, ""),
    )


def _tls(options: Mapping[str, str]) -> TlsFiles:
    return TlsFiles(
        ca_store=options.get("ca_store", ""), certificate=options.get("certificate", ""), key=options.get("key", "")
    )


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else default
