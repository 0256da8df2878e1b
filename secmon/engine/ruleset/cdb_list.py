"""CDB lists: keys with values that rules look up (ruleset.md 7). They are in memory: no ``.cdb`` files are needed."""

from collections.abc import Mapping
from typing import Literal

from secmon.engine.matching.osmatch import OSMatch

MAX_LINE = 65534

Lookup = Literal[
    "match_key",
    "not_match_key",
    "match_key_value",
    "address_match_key",
    "not_address_match_key",
    "address_match_key_value",
]


class CdbList:
    """One list. The first value of a repeated key counts."""

    __slots__ = ("_values",)

    def __init__(self, source: bytes) -> None:
        self._values: dict[bytes, bytes] = {}
        for line in source.split(b"\n"):
            entry = read_line(line)
            if entry is not None:
                self._values.setdefault(*entry)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def address(self, text: bytes) -> bytes | None:
        """The value of ``text``, or of the longest of its prefixes that ends with a full stop and is a key."""
        found = self._values.get(text)
        while found is None and (stop := text.rstrip(b".").rfind(b".")) >= 0:
            text = text[: stop + 1]
            found = self._values.get(text)
        return found

    def test(self, lookup: Lookup, text: bytes, value: OSMatch | None) -> bool:
        """One look-up of a rule. ``value``: the pattern of ``check_value``; without it no value matches.

        ``address_match_key_value`` looks addresses up, unlike in the public counterpart (ruleset.md 14, Q11).
        """
        match lookup:
            case "match_key":
                return text in self._values
            case "not_match_key":
                return text not in self._values
            case "match_key_value":
                found = self._values.get(text)
            case "address_match_key":
                return self.address(text) is not None
            case "not_address_match_key":
                return self.address(text) is None
            case "address_match_key_value":
                found = self.address(text)
        return found is not None and value is not None and value.test(found)


def read_line(line: bytes) -> tuple[bytes, bytes] | None:
    """Key and value of one line; None for an invalid line (ruleset.md 7.1)."""
    text = line.split(b"\r", 1)[0]
    if len(text) > MAX_LINE:
        return None
    quote, colon = text.find(b'"'), text.find(b":")
    if quote >= 0 and (colon < 0 or colon > quote):
        end = text.find(b'"', quote + 1)
        if end < 0:
            return None
        key, colon = text[quote + 1 : end], text.find(b":", end + 1)
    else:
        key = text[:colon] if colon >= 0 else b""
    if colon < 0:
        return None
    value = text[colon + 1 :]
    opening = value.find(b'"')
    if opening >= 0:
        closing = value.find(b'"', opening + 1)
        if closing < 0:
            return None
        value = value[opening + 1 : closing]
    return key, value


Lists = Mapping[str, CdbList]
"""Lists by the path in the configuration, such as ``etc/lists/audit-keys``."""
