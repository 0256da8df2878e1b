"""The sections of the main configuration that send alerts on (manager.md 4.3).

They are read from the file itself: its JSON form merges sections that are separate outputs here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from secmon.common.paths import Paths
from secmon.config.as_json import MAIN_ROOT
from secmon.config.xml import Element, read_xml

SYSLOG_PORT, SYSLOG_TLS_PORT = 514, 6514


class AlertConditions(Struct, frozen=True, kw_only=True):
    """Which alerts: all conditions that are set must hold. ``group`` and ``location`` are OS_Match expressions.

    ``silences``: alerts that a silence covers are held back.
    """

    level: int = 0
    rules: tuple[str, ...] = ()
    group: str = ""
    location: str = ""
    silences: bool = True

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


class Integration(Struct, frozen=True, kw_only=True):
    """One ``integration`` section. Times in seconds."""

    name: str
    hook_url: str = ""
    api_key: str = ""
    options: str = ""
    """A JSON object."""
    template: str = ""
    """File of the body of a webhook, relative to the installation or absolute."""
    content_type: str = "application/json"
    secrets: str = "arguments"
    """How a program gets key and URL: as ``arguments``, or in its ``environment``."""
    max_log: int = 165
    timeout: int = 10
    retries: int = 3
    conditions: AlertConditions = AlertConditions()
    tls: TlsFiles = TlsFiles()

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7.4, integrator)."""
        texts = {"hook_url": self.hook_url, "api_key": self.api_key}
        return {
            "name": self.name,
            **{name: text for name, text in texts.items() if text},
            **self.conditions.active_configuration(),
            "alert_format": "json",
            "max_log": self.max_log,
            "timeout": self.timeout,
            "retries": self.retries,
        }


class Indexer(Struct, frozen=True, kw_only=True):
    """The ``indexer`` section, where alerts are to be sent there."""

    hosts: tuple[str, ...]
    username: str = ""
    password: str = ""
    conditions: AlertConditions = AlertConditions()
    tls: TlsFiles = TlsFiles()


class Recipients(Struct, frozen=True, kw_only=True):
    """Addresses that get the same mails, and which. ``format``: ``full`` or ``sms``."""

    addresses: tuple[str, ...]
    conditions: AlertConditions = AlertConditions()
    format: str = "full"
    delay: bool = True
    """Alerts wait a little for others, to come in one mail."""
    grouped: bool = True
    """A mail may hold several alerts."""


class MailSettings(Struct, frozen=True, kw_only=True):
    """How mail is sent, and to whom: the global recipients first."""

    server: str
    sender: str
    port: int = 25
    encryption: str = "starttls"
    """``none``; ``starttls``: when the server offers it; ``required``: or nothing is sent; ``tls`` from the start."""
    user: str = ""
    password: str = ""
    reply_to: str = ""
    ids_name: str = ""
    helo: str = ""
    most_per_hour: int = 12
    log_source: str = "alerts.log"
    ca_store: str = ""
    recipients: tuple[Recipients, ...] = ()

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7.4, mail)."""
        texts = {"email_reply_to": self.reply_to, "email_idsname": self.ids_name, "helo_server": self.helo}
        return {
            "global": {
                "email_to": list(self.recipients[0].addresses),
                "email_from": self.sender,
                **{name: text for name, text in texts.items() if text},
                "smtp_server": self.server,
                "email_log_source": self.log_source,
                "email_maxperhour": self.most_per_hour,
            },
            "alerts": [_granular(one, address) for one in self.recipients[1:] for address in one.addresses],
            "internal": {"mail": {"strict_checking": 1, "grouping": 1}},
        }


def _granular(one: Recipients, address: str) -> dict[str, Any]:
    form = "do_not_group" if not one.grouped else "do_not_delay" if not one.delay else one.format
    return {"email_to": address, **one.conditions.active_configuration(), "format": form}


class Outputs(Struct, frozen=True, kw_only=True):
    """All outputs of a node."""

    syslog: tuple[SyslogOutput, ...] = ()
    integrations: tuple[Integration, ...] = ()
    indexer: Indexer | None = None
    mail: MailSettings | None = None


def load_outputs(paths: Paths) -> Outputs:
    """The outputs of the node's main configuration. Raises ConfigError 1101."""
    return read_outputs(read_xml(paths.main_config))


def read_outputs(document: Element) -> Outputs:
    """The outputs of a document that ``xml.read_xml`` returned; a value that is not valid has its default."""
    roots = [root for root in document.children if root.name == MAIN_ROOT]

    def sections(name: str) -> list[Element]:
        return [each for root in roots for each in root.children if each.name == name]

    syslog = [_texts(one) for one in sections("syslog_output")]
    integrations = [_texts(one) for one in sections("integration")]
    return Outputs(
        syslog=tuple(_syslog(one) for one in syslog if one.get("server")),
        integrations=tuple(_integration(one) for one in integrations if one.get("name")),
        indexer=_indexer(sections("indexer")[-1:]),
        mail=_mail(sections("global"), sections("email_alerts")),
    )


def _texts(section: Element) -> dict[str, str]:
    """The options of a section; of several the last."""
    return {one.name: (one.text or "").strip() for one in section.children}


def _every(sections: Iterable[Element], name: str) -> tuple[str, ...]:
    """The texts of an option that may stand several times."""
    found = ((one.text or "").strip() for section in sections for one in section.children if one.name == name)
    return tuple(dict.fromkeys(text for text in found if text))


def _integration(options: Mapping[str, str]) -> Integration:
    return Integration(
        name=options["name"],
        **{
            name: options[name]
            for name in ("hook_url", "api_key", "options", "template", "content_type", "secrets")
            if options.get(name)
        },
        max_log=_number(options, "max_log", 165),
        timeout=max(1, _number(options, "timeout", 10)),
        retries=_number(options, "retries", 3),
        conditions=_conditions(options, location="event_location"),
        tls=_tls(options),
    )


def _indexer(sections: list[Element]) -> Indexer | None:
    """The last section, if it says that alerts are sent."""
    for section in sections:
        options = _texts(section)
        hosts = [one for one in section.children if one.name == "hosts"]
        ssl = next((one for one in section.children if one.name == "ssl"), None)
        if options.get("alerts") != "yes" or options.get("enabled") == "no" or not _every(hosts, "host"):
            return None
        files = _texts(ssl) if ssl is not None else {}
        authorities = (
            _every([one for one in ssl.children if one.name == "certificate_authorities"], "ca") if ssl else ()
        )
        return Indexer(
            hosts=_every(hosts, "host"),
            username=options.get("username", ""),
            password=options.get("password", ""),
            conditions=_conditions(options, location="location", silences="no"),
            tls=TlsFiles(
                ca_store=authorities[0] if authorities else "",
                certificate=files.get("certificate", ""),
                key=files.get("key", ""),
            ),
        )
    return None


def _mail(sections: list[Element], granular: list[Element]) -> MailSettings | None:
    """None unless mail is asked for, and server, sender and a recipient are named."""
    options = {name: text for section in sections for name, text in _texts(section).items()}
    addresses = _every(sections, "email_to")
    server, sender = options.get("smtp_server"), options.get("email_from")
    if options.get("email_notification") != "yes" or not (addresses and server and sender):
        return None
    encryption = options.get("smtp_encryption", "starttls")
    return MailSettings(
        server=server,
        sender=sender,
        port=_number(options, "smtp_port", 465 if encryption == "tls" else 25),
        encryption=encryption,
        user=options.get("smtp_user", ""),
        password=options.get("smtp_password", ""),
        reply_to=options.get("email_reply_to", ""),
        ids_name=options.get("email_idsname", ""),
        helo=options.get("helo_server", ""),
        most_per_hour=max(1, _number(options, "email_maxperhour", 12)),
        log_source=options.get("email_log_source", "alerts.log"),
        ca_store=options.get("smtp_ca_store", ""),
        recipients=(
            Recipients(addresses=addresses),
            *(_recipients(one) for one in granular if _every([one], "email_to")),
        ),
    )


def _recipients(section: Element) -> Recipients:
    options = _texts(section)
    return Recipients(
        addresses=_every([section], "email_to"),
        conditions=_conditions(options, location="event_location"),
        format="sms" if options.get("format") == "sms" else "full",
        delay="do_not_delay" not in options,
        grouped="do_not_group" not in options,
    )


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


def _conditions(options: Mapping[str, str], *, location: str, silences: str = "yes") -> AlertConditions:
    return AlertConditions(
        level=_number(options, "level", 0),
        rules=tuple(str(int(one)) for one in options.get("rule_id", "").replace(",", " ").split() if one.isdecimal()),
        group=options.get("group", ""),
        location=options.get(location, ""),
        silences=options.get("silences", silences) == "yes",
    )


def _tls(options: Mapping[str, str]) -> TlsFiles:
    return TlsFiles(
        ca_store=options.get("ca_store", ""), certificate=options.get("certificate", ""), key=options.get("key", "")
    )


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else default
