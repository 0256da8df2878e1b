"""Addresses in keys and events (agent-link.md 1.6, 4.4)."""

import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ANY = "any"


def source_text(address: str) -> str:
    """A peer's address as text: IPv4 also for IPv4-mapped IPv6, other IPv6 as eight full upper-case groups.

    Raises ValueError for what is no address. A scope (``%eth0``) is dropped.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped) if found.ipv4_mapped else found.exploded.upper()
    return str(found)


def bare(registered: str) -> str:
    """A registered address without prefix length, IPv6 in full, for events, replies and look-ups."""
    address = registered.partition("/")[0]
    try:
        return source_text(address)
    except ValueError:
        return address


def network(registered: str) -> Network | None:
    """The addresses that an agent may have; None for all. Raises ValueError for an invalid address."""
    if registered == ANY:
        return None
    return ipaddress.ip_network(registered, strict=False)


def covers(allowed: Network | None, source: str) -> bool:
    """Whether ``source``, in the form of :func:`source_text`, is in ``allowed``."""
    return allowed is None or ipaddress.ip_address(source) in allowed
