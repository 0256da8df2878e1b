"""The order of versions of pacman packages: ``[epoch:]version[-release]`` (vercmp(8)).

As that of RPM without ``~`` and ``^``, except that the number of separators counts, and that letters right after a
number come before the end: ``1.0rc1`` < ``1.0`` < ``1.0.rc1``.
"""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number, split_release, word

_LETTERS_AT_ONCE, _END, _DIGITS_AT_ONCE, _SEPARATED = (bytes((rank,)) for rank in range(1, 5))
_LETTERS, _DIGITS = b"\x01", b"\x02"
_SEGMENTS = re.compile(r"([^A-Za-z0-9]*)(?:([0-9]+)|([A-Za-z]+))")
_MOST_SEPARATORS = 255


def key(version: str) -> bytes:
    """A version without release comes before those with one. Raises NoVersion."""
    epoch, upstream, release = split_release(version)
    if not _SEGMENTS.search(upstream):
        raise NoVersion(version)
    return number(epoch) + _part(upstream) + (b"" if release is None else _part(release))


def _part(text: str) -> bytes:
    found = bytearray()
    for separators, digits, letters in _SEGMENTS.findall(text):
        if separators:
            found += _SEPARATED + bytes((min(len(separators), _MOST_SEPARATORS),)) + (_DIGITS if digits else _LETTERS)
        else:
            found += _DIGITS_AT_ONCE if digits else _LETTERS_AT_ONCE
        found += number(digits) if digits else word(letters)
    return bytes(found + _END)
