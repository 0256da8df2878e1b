"""The ``remote`` sections of the main configuration: where agents and syslog senders connect (agent-link.md 4.1)."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from secmon.common.paths import Paths
from secmon.config.as_json import MAIN_ROOT
from secmon.config.values import seconds
from secmon.config.xml import Element, read_xml

SECURE_PORT = 1514
SYSLOG_PORT = 514
QUEUE_SIZE = 131_072


class RemoteBlock(Struct, frozen=True, kw_only=True):
    """One ``remote`` section. Networks are texts as configured, a leading ``!`` negates."""

    secure: bool = True
    port: int = SECURE_PORT
    protocols: tuple[str, ...] = ("tcp",)
    ipv6: bool = False
    local_ip: str = ""
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    queue_size: int = QUEUE_SIZE
    rids_closing_seconds: int = 300
    overtake_seconds: int = 60
    allow_higher_versions: bool = False

    @property
    def host(self) -> str:
        """Address to bind."""
        return self.local_ip or ("::" if self.ipv6 else "0.0.0.0")

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (agent-link.md 12.3): numbers of the file stay text."""
        shown: dict[str, Any] = {
            "connection": "secure" if self.secure else "syslog",
            "ipv6": "yes" if self.ipv6 else "no",
        }
        if self.local_ip:
            shown["local_ip"] = self.local_ip
        shown |= {"protocol": [name.upper() for name in self.protocols], "port": str(self.port)}
        if self.secure:
            shown["queue_size"] = str(self.queue_size)
            shown["agents"] = {"allow_higher_versions": "yes" if self.allow_higher_versions else "no"}
        shown |= {name: list(found) for name, found in self._lists() if found}
        return shown | {"connection_overtake_time": self.overtake_seconds}

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("allowed-ips", self.allowed), ("denied-ips", self.denied)


def load_remote(paths: Paths) -> list[RemoteBlock]:
    """The sections of the node's main configuration; none where agents are not served. Raises ConfigError 1101."""
    return read_remote(read_xml(paths.main_config))


def read_remote(document: Element) -> list[RemoteBlock]:
    """The sections of a document that ``xml.read_xml`` returned; a value that is not valid has its default."""
    roots = (root for root in document.children if root.name == MAIN_ROOT)
    sections = [each for root in roots for each in root.children if each.name == "remote"]
    return [_block({option.name: option for option in section.children}, section) for section in sections]


def _block(last: dict[str, Element], section: Element) -> RemoteBlock:
    def text(name: str) -> str:
        return (last[name].text or "").strip() if name in last else ""

    def number(name: str, default: int) -> int:
        found = text(name)
        return int(found) if found.isascii() and found.isdecimal() else default

    secure = text("connection") != "syslog"
    higher = [each.text for each in last["agents"].children] if "agents" in last else []
    return RemoteBlock(
        secure=secure,
        port=number("port", SECURE_PORT if secure else SYSLOG_PORT),
        protocols=_protocols(text("protocol")),
        ipv6=text("ipv6") == "yes",
        local_ip=text("local_ip"),
        allowed=_networks(section, "allowed-ips"),
        denied=_networks(section, "denied-ips"),
        queue_size=max(1, number("queue_size", QUEUE_SIZE)),
        rids_closing_seconds=seconds(text("rids_closing_time")) or 300,
        overtake_seconds=min(3600, number("connection_overtake_time", 60)),
        allow_higher_versions=any((value or "").strip() == "yes" for value in higher),
    )


def _protocols(text: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word in ("tcp", "udp"))) or ("tcp",)


def _networks(section: Element, name: str) -> tuple[str, ...]:
    return tuple((each.text or "").strip() for each in section.children if each.name == name)


def permitted(source: str, allowed: Sequence[str], denied: Sequence[str]) -> bool:
    """Whether ``source`` is in one of ``allowed`` and in none of ``denied``."""
    address = ipaddress.ip_address(source)

    def within(text: str) -> bool:
        if text == "any":
            return True
        inside = address in ipaddress.ip_network(text.removeprefix("!"), strict=False)
        return inside != text.startswith("!")

    return any(map(within, allowed)) and not any(map(within, denied))
