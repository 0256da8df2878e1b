"""Free TCP ports of this host."""

import socket


def free_port(address: str, first: int, taken: set[int], *, count: int = 1) -> int:
    """The lowest port from ``first`` that begins ``count`` consecutive ports which are free and not ``taken``.

    Raises OSError when there is none. Another program may bind the port before it is used.
    """
    for port in range(first, 65536 - count):
        wanted = range(port, port + count)
        if not taken.intersection(wanted) and all(is_free(address, each) for each in wanted):
            return port
    raise OSError(f"no free port on {address} from {first} on")


def is_free(address: str, port: int) -> bool:
    """Whether ``port`` can be bound now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
