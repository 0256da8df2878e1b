"""Sockets and what stops a start."""

import socket

import pytest

from secmon.common.accept.listening import bind_sockets
from secmon.common.errors import SecmonError


def test_port_in_use() -> None:
    (taken,) = bind_sockets("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(SecmonError, match=rf"2010: .*127\.0\.0\.1, port {port}: Address already in use"):
        bind_sockets("127.0.0.1", port)
    taken.close()


def test_address_of_another_host() -> None:
    with pytest.raises(SecmonError, match=r"2010: .*192\.0\.2\.1, port 0: "):
        bind_sockets("192.0.2.1", 0)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_all_addresses_of_both_families() -> None:
    try:
        (both,) = bind_sockets("::", 0)
    except SecmonError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with both:
        for address in ("127.0.0.1", "::1"):
            with socket.create_connection((address, both.getsockname()[1])) as client:
                assert client.getpeername()[:2] == (address, both.getsockname()[1])
