"""Texts that name agents and groups: ids, names, addresses, key hashes (agent-link.md 1.6-1.10, 2.1)."""

import hashlib
import ipaddress
import re
from collections.abc import Iterable

MAX_ID = 99_999_999
"""Agents accept ids of at most eight digits."""

MAX_GROUPS = 128
"""Groups of one agent."""

DEFAULT_GROUP = "default"

ANY = "any"
"""The registered address of an agent that may connect from any address."""

AGENT_NAME = re.compile(r"[A-Za-z0-9._-]{2,128}", re.ASCII)
"""Names at enrolment; the API accepts more characters."""

GROUP_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,255}", re.ASCII)
"""Names of groups; enrolment accepts more characters, but no such group can exist."""

_KEY_FILE_FIELD = re.compile(r"[^\s']{1,127}")


def padded(agent: int) -> str:
    """The id in the form of the protocol and the API: at least three digits."""
    return f"{agent:03d}"


def parse_id(text: str) -> int | None:
    """The number of an id, with or without leading zeros; ``None`` if it is invalid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 64):
        return None
    agent = int(text)
    return agent if agent <= MAX_ID else None


def key_hash(agent: int, name: str, key: str) -> str:
    """The hash with which an agent proves that it has the key: SHA-1 of id, name and key, concatenated (1.8)."""
    return hashlib.sha1(f"{padded(agent)}{name}{key}".encode(), usedforsecurity=False).hexdigest()


def fits_key_file(*fields: str) -> bool:
    """Whether each text can be a field of the key file and of a reply: 1 to 127 characters, no space, no quote."""
    return all(_KEY_FILE_FIELD.fullmatch(field) for field in fields)


def normal_address(text: str) -> str:
    """An address, CIDR or ``any`` as the registry writes it. Raises ValueError for anything else.

    IPv4-mapped IPv6 becomes IPv4, IPv6 eight full upper-case groups, a netmask its prefix length; host bits of a CIDR
    stay.
    """
    if text == ANY:
        return ANY
    if "/" not in text:
        return _host(text)
    interface = ipaddress.ip_interface(text)
    host, length = _host(str(interface.ip)), interface.network.prefixlen
    return f"{host}/{length}" if ":" in host or interface.version == 4 else f"{host}/{max(0, length - 96)}"


def bare_address(address: str) -> str:
    """The registered address without its prefix length."""
    return address.partition("/")[0]


def _host(text: str) -> str:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"{text!r} has a zone")
        if address.ipv4_mapped is None:
            return address.exploded.upper()
        address = address.ipv4_mapped
    return str(address)


def join_groups(groups: Iterable[str]) -> str:
    """The names joined by commas, of repeated ones the first; lowest priority first."""
    return ",".join(dict.fromkeys(groups))


def split_groups(joined: str | None) -> tuple[str, ...]:
    """The names in ``joined``; none for an agent that was never assigned."""
    return tuple(joined.split(",")) if joined else ()


def group_hash(joined: str) -> str:
    """Short name of a combination of groups: the first 8 hex digits of SHA-256 of the names joined by commas."""
    return hashlib.sha256(joined.encode()).hexdigest()[:8]
