"""The order of versions of Debian packages: ``[epoch:]upstream[-revision]`` (Debian policy 5.6.12)."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number, split_epoch

_TILDE, _END = b"\x01", b"\x02"
_PAIRS = re.compile(r"([^0-9]*)([0-9]*)")
_ALLOWED = re.compile(r"[A-Za-z0-9.+\-~:_]+")
_RANKS = {code: bytes((code,)) if chr(code).isalpha() else bytes((code | 0x80,)) for code in range(0x21, 0x7F)} | {
    ord("~"): _TILDE
}
"""``~`` before the end of a part, then letters, then all others."""


def key(version: str) -> bytes:
    """Raises NoVersion."""
    epoch, rest = split_epoch(version)
    if not _ALLOWED.fullmatch(rest):
        raise NoVersion(version)
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    if not (upstream and revision):
        raise NoVersion(version)
    return number(epoch) + _part(upstream) + _part(revision)


def _part(text: str) -> bytes:
    """Non-digits and digits in turn; a missing number is 0."""
    found = bytearray()
    for others, digits in _PAIRS.findall(text):
        if others or digits:
            found += b"".join(_RANKS[ord(character)] for character in others) + _END + number(digits)
    # A part that ends is as one that goes on with nothing and 0, which "0" is too.
    return bytes(found if found else _END + number("")) + _END
