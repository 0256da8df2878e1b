"""The order of versions of RPM packages: ``[epoch:]version[-release]`` (rpm's manual, "Version comparison")."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number, split_release, word

_TILDE, _END, _CARET, _LETTERS, _DIGITS = (bytes((rank,)) for rank in range(1, 6))
_SEGMENTS = re.compile(r"([0-9]+)|([A-Za-z]+)|(~)|(\^)")


def key(version: str) -> bytes:
    """A version without release comes before those with one. Raises NoVersion."""
    epoch, upstream, release = split_release(version)
    if not _SEGMENTS.search(upstream):
        raise NoVersion(version)
    return number(epoch) + _part(upstream) + (b"" if release is None else _part(release))


def _part(text: str) -> bytes:
    found = bytearray()
    for digits, letters, tilde, _caret in _SEGMENTS.findall(text):
        if digits:
            found += _DIGITS + number(digits)
        elif letters:
            found += _LETTERS + word(letters)
        else:
            found += _TILDE if tilde else _CARET
    return bytes(found + _END)
