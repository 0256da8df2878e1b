"""Listening sockets, and the descriptors that their connections take."""

import math
import resource
import socket

from msgspec.structs import replace

from secmon.common.accept.limiter import AcceptLimits
from secmon.common.errors import SecmonError

BACKLOG = 2048
MAX_DESCRIPTORS = 458_752
RESERVED_DESCRIPTORS = 256
"""Kept for the daemon itself: stores, logs, journals, local sockets, calls to other nodes."""


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of ``host``; ``::`` takes IPv4 too. Port 0 takes a free one, the same for all.

    Raises 2010.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            taken = sockets[0].getsockname()[1] if sockets else port
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
            one.bind((address[0], taken, *address[2:]))
            one.listen(BACKLOG)  # now, not at the start: only this shows that the port is really free
            one.setblocking(False)
    except OSError as error:
        for one in sockets:
            one.close()
        raise SecmonError(2010, f"{host}, port {port}: {error.strerror or error}") from error
    return sockets


def allow_files(wanted: int) -> int:
    """Let this process open ``wanted`` files, or as many as it may; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def within_descriptors(limits: AcceptLimits, *, each: int = 1, share: float = 1.0) -> AcceptLimits:
    """``limits``, lowered to what the descriptors of this process allow besides :data:`RESERVED_DESCRIPTORS`.

    ``each``: descriptors that a connection takes; ``share`` of them that this port may have.
    """
    available = max(16, int((allow_files(MAX_DESCRIPTORS) - RESERVED_DESCRIPTORS) * share) // each)
    if available >= limits.total:
        return limits
    factor = available / limits.total
    return replace(
        limits,
        total=available,
        reserved=int(limits.reserved * factor),
        per_address=max(4, int(limits.per_address * factor)),
        per_known_address=math.ceil(limits.per_known_address * factor),
    )
