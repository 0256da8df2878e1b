"""CDB lists: keys with values that rules look up (ruleset.md 7). They are in memory: no ``.cdb`` files are needed."""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Literal

from secmon.engine.matching.osmatch import OSMatch
from secmon.knowledge.lists.list_text import read_line

Lookup = Literal[
    "match_key",
    "not_match_key",
    "match_key_value",
    "address_match_key",
    "not_address_match_key",
    "address_match_key_value",
]
_NEVER: Mapping[bytes, int] = {}


class CdbList:
    """One list. The first value of a repeated key counts. Look-ups are ``at`` a moment, in seconds since 1970."""

    __slots__ = ("_networks", "_until", "_values")

    def __init__(self, source: bytes, until: Mapping[bytes, int] = _NEVER) -> None:
        """``until``: when entries expire, by key; others do not."""
        self._values: dict[bytes, bytes] = {}
        for line in source.split(b"\n"):
            entry = read_line(line)
            if entry is not None:
                self._values.setdefault(*entry)
        self._until = {key: moment for key, moment in until.items() if key in self._values}
        self._networks = _Networks(key for key in self._values if b"/" in key)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, key: bytes, at: int) -> bytes | None:
        found = self._values.get(key)
        if found is not None and self._until and key in self._until and self._until[key] <= at:
            return None
        return found

    def address(self, text: bytes, at: int) -> bytes | None:
        """The value of ``text``, or of the longest of its prefixes that ends with a full stop and is a key.

        Without one, the value of the smallest network in the list that ``text`` is an address of.
        """
        start, found = text, self.value(text, at)
        while found is None and (stop := text.rstrip(b".").rfind(b".")) >= 0:
            text = text[: stop + 1]
            found = self.value(text, at)
        if found is None and self._networks:
            found = next(
                (value for key in self._networks.of(start) if (value := self.value(key, at)) is not None), None
            )
        return found

    def test(self, lookup: Lookup, text: bytes, value: OSMatch | None, at: int) -> bool:
        """One look-up of a rule. ``value``: the pattern of ``check_value``; without it no value matches.

        ``address_match_key_value`` looks addresses up, unlike in the public counterpart (ruleset.md 14, Q11).
        """
        match lookup:
            case "match_key":
                return self.value(text, at) is not None
            case "not_match_key":
                return self.value(text, at) is None
            case "match_key_value":
                found = self.value(text, at)
            case "address_match_key":
                return self.address(text, at) is not None
            case "not_address_match_key":
                return self.address(text, at) is None
            case "address_match_key_value":
                found = self.address(text, at)
        return found is not None and value is not None and value.test(found)


class _Networks:
    """Keys that are networks (``address/bits``), by version, bits and number of the network."""

    __slots__ = ("_by_bits",)

    def __init__(self, keys: Iterable[bytes]) -> None:
        found: dict[tuple[int, int], dict[int, bytes]] = {}
        for key in keys:
            if key.rpartition(b"/")[2].isdigit():
                try:
                    network = ipaddress.ip_network(key.decode("ascii"), strict=False)
                except ValueError:  # a path, for example
                    continue
                host_bits = network.max_prefixlen - network.prefixlen
                numbers = found.setdefault((network.version, host_bits), {})
                numbers.setdefault(int(network.network_address) >> host_bits, key)
        self._by_bits = dict(sorted(found.items()))

    def __bool__(self) -> bool:
        return bool(self._by_bits)

    def of(self, text: bytes) -> Iterable[bytes]:
        """The keys of the networks that hold the address, the smallest network first; none if it is no address."""
        try:
            address = ipaddress.ip_address(text.decode("ascii"))
        except ValueError:
            return
        number = int(address)
        for (version, host_bits), keys in self._by_bits.items():
            if version == address.version and (key := keys.get(number >> host_bits)) is not None:
                yield key
