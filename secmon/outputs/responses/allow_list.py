"""Addresses that no response is for: the ``white_list`` of the configuration (manager.md 4.1)."""

import ipaddress
from collections.abc import Iterable

from secmon.engine.matching.osmatch import OSMatch


class AllowList:
    """Addresses and networks, and patterns of host names."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        patterns: list[str] = []
        for text in texts:
            try:
                self._networks.append(ipaddress.ip_network(text, strict=False))
            except ValueError:
                patterns.append(text)
        self._names = [OSMatch(one.encode()) for one in patterns]

    def holds(self, source: str) -> bool:
        """Whether ``source``, the address or host name in an alert, is allowed."""
        if not source:
            return False
        try:
            address = ipaddress.ip_address(source)
        except ValueError:
            return any(one.test(source.encode()) for one in self._names)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in one for one in self._networks)
