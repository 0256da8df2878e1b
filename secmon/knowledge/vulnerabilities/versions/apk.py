"""The order of versions of Alpine packages: ``1.2.3b_rc1_p2-r4`` (apk-package(5), "Package version")."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number

_BEFORE, _END, _REVISION, _SUFFIX_NUMBER, _AFTER, _LETTER, _NUMBER = (bytes((rank,)) for rank in range(1, 8))
_SUFFIXES = {name: _BEFORE + bytes((rank,)) for rank, name in enumerate(("alpha", "beta", "pre", "rc"))} | {
    name: _AFTER + bytes((rank,)) for rank, name in enumerate(("cvs", "svn", "git", "hg", "p"))
}
_VERSION = re.compile(
    r"(?P<numbers>[0-9]+(?:\.[0-9]+)*)(?P<letter>[a-z]?)(?P<suffixes>(?:_[a-z]+[0-9]*)*)"
    r"(?:~[0-9a-f]+)?(?:-r(?P<revision>[0-9]+))?"
)
_SUFFIX = re.compile(r"_([a-z]+)([0-9]*)")
_MOST_ZEROS = 127


def key(version: str) -> bytes:
    """Raises NoVersion."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise NoVersion(version)
    first, *others = found["numbers"].split(".")
    parts = [_NUMBER + number(first), *map(_fraction, others)]
    if found["letter"]:
        parts.append(_LETTER + found["letter"].encode())
    for name, digits in _SUFFIX.findall(found["suffixes"]):
        if name not in _SUFFIXES:
            raise NoVersion(version)
        parts += [_SUFFIXES[name], _SUFFIX_NUMBER + number(digits) if digits else b""]
    if found["revision"]:
        parts.append(_REVISION + number(found["revision"]))
    return b"".join(parts) + _END


def _fraction(digits: str) -> bytes:
    """A number after a point: one with leading zeros comes before others, the more zeros the earlier."""
    rest = digits.lstrip("0")
    zeros = len(digits) - len(rest)
    if not zeros:
        return _NUMBER + b"\xff" + number(digits)
    return _NUMBER + bytes((_MOST_ZEROS - min(zeros, _MOST_ZEROS),)) + (_NUMBER + number(rest) if rest else b"")
