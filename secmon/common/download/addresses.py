"""Which addresses are downloaded from: URLs, redirects, and how far inside the network a server may be."""

import asyncio
import ipaddress
import socket
from urllib.parse import SplitResult, urljoin, urlsplit

PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

ANYWHERE = 2
"""The reach of this host and its link: no limit."""


class DownloadError(Exception):
    """A download that failed; says why."""


def check_url(url: str) -> SplitResult:
    """The parts of an address to download from. Raises DownloadError."""
    shown = repr(without_query(url)[:200])
    try:
        parts = urlsplit(url)
        known = parts.scheme in PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise DownloadError(f"{shown}: {error}") from None
    if not known or not all(32 < ord(character) < 127 for character in url):
        raise DownloadError(f"{shown} is no address beginning with http:// or https://")
    if parts.username is not None:
        raise DownloadError("an address must not hold a user or password")
    return parts


def without_query(url: str) -> str:
    """The address for logs and answers: the query of a URL may hold a secret."""
    return url.partition("?")[0]


def redirected(url: str, location: str) -> str:
    """Where ``url`` redirects to. Raises DownloadError when it leads from HTTPS to something else."""
    target = urljoin(url, location)
    if url.lower().startswith("https:") and not target.lower().startswith("https:"):
        raise DownloadError("it redirects from https:// to another kind of address")
    return target


def same_server(url: str, other: str) -> bool:
    """Whether both are of one scheme, host and port, as written."""
    one, two = urlsplit(url), urlsplit(other)
    return (one.scheme, one.netloc) == (two.scheme, two.netloc)


def reach_of(address: str) -> int:
    """How far inside an IP address is: 0 public, 1 in a private network, 2 this host or its link."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        carried = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        found = found.ipv4_mapped or found.sixtofour or carried or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        return 2
    return 0 if found.is_global else 1


async def resolve(url: SplitResult, reach: int) -> list[str]:
    """The IP addresses of the server that are no further inside than ``reach``. Raises DownloadError, OSError.

    They are what is connected to: a name that resolves to another address a moment later changes nothing.
    """
    host, port = url.hostname or "", url.port or PORTS[url.scheme]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(address) for *_, (address, *_) in found]
    usable = [address for address in dict.fromkeys(addresses) if reach_of(address) <= reach]
    if not usable:
        raise DownloadError(f"it redirects to {host}, an address inside this network")
    return usable
