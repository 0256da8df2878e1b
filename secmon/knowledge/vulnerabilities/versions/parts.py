"""Parts of keys: bytes that compare as what they stand for."""

MAX_VERSION = 1000
"""Characters of a version."""
_LONG = 255


class NoVersion(ValueError):
    """The text is no version of its ecosystem."""


def number(digits: str) -> bytes:
    """A number of any length from decimal digits; none is 0. The more digits, the larger."""
    significant = digits.lstrip("0")
    length = len(significant)
    head = bytes((length,)) if length < _LONG else bytes((_LONG,)) + length.to_bytes(4, "big")
    return head + significant.encode("ascii")


def word(text: str) -> bytes:
    """Letters, compared by code; a word comes before its continuations."""
    return text.encode("utf-8", "replace") + b"\0"


def split_epoch(version: str) -> tuple[str, str]:
    """The epoch (``0`` where there is none) and the rest of ``[epoch:]rest``."""
    epoch, colon, rest = version.partition(":")
    return (epoch, rest) if colon and epoch.isascii() and epoch.isdigit() else ("0", version)


def split_release(version: str) -> tuple[str, str, str | None]:
    """The parts of ``[epoch:]version[-release]``; the release is None where there is none."""
    epoch, rest = split_epoch(version)
    upstream, dash, release = rest.rpartition("-")
    return (epoch, upstream, release) if dash else (epoch, rest, None)
