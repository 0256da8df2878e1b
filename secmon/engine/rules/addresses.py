"""Tests of addresses in rules (ruleset.md 6.2, ``srcip`` and ``dstip``)."""

import ipaddress
from collections.abc import Callable, Sequence

_ANY = "any"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def address_test(texts: Sequence[str]) -> Callable[[bytes], bool]:
    """Whether a text is an address within one of ``texts``: an address, a network, or ``any``. Raises ValueError.

    A leading ``!`` turns one of them around (ruleset.md 14, Q10). What is no address is within none.
    """
    plain: list[Network] = []
    turned: list[Network] = []
    everything = False
    for text in texts:
        name = text.strip().removeprefix("!")
        if name.lower() == _ANY:
            everything = True
            continue
        (turned if text.strip().startswith("!") else plain).append(ipaddress.ip_network(name, strict=False))

    def test(value: bytes) -> bool:
        address = _address(value)
        if address is None:
            return False
        return everything or any(address in one for one in plain) or any(address not in one for one in turned)

    return test


def _address(value: bytes) -> Address | None:
    try:
        return ipaddress.ip_address(value.decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        return None
