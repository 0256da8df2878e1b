"""Address conditions of rules: ``srcip`` and ``dstip`` (ruleset.md 6.2)."""

import ipaddress
from collections.abc import Callable, Sequence

_ANY = "any"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def address_test(texts: Sequence[str]) -> Callable[[bytes], bool]:
    """Whether a text is an address within one of ``texts``: an address, a network, or ``any``. Raises ValueError.

    A leading ``!`` negates one of them (ruleset.md 14, Q10). A text that is no address never matches.
    """
    plain: list[Network] = []
    negated: list[Network] = []
    everything = False
    for text in texts:
        name = text.strip().removeprefix("!")
        if name.lower() == _ANY:
            everything = True
            continue
        (negated if text.strip().startswith("!") else plain).append(ipaddress.ip_network(name, strict=False))

    def test(value: bytes) -> bool:
        address = _address(value)
        if address is None:
            return False
        return everything or any(address in one for one in plain) or any(address not in one for one in negated)

    return test


def _address(value: bytes) -> Address | None:
    try:
        return ipaddress.ip_address(value.decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        return None
