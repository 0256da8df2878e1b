"""The order of versions of npm packages: Semantic Versioning 2.0 (semver.org, clause 11)."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number, word

_END, _NUMERIC, _TEXT, _RELEASE = b"\x01", b"\x02", b"\x03", b"\xff"
_VERSION = re.compile(
    r"[v=]?\s*(?P<numbers>[0-9]+(?:\.[0-9]+){0,3})(?:-(?P<before>[0-9A-Za-z.\-]+))?(?:\+[0-9A-Za-z.\-]*)?"
)
_NUMBERS = 4


def key(version: str) -> bytes:
    """Missing numbers are 0; a build does not count. Raises NoVersion."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise NoVersion(version)
    numbers = found["numbers"].split(".")
    numbers += ["0"] * (_NUMBERS - len(numbers))
    return b"".join(map(number, numbers)) + (_before(found["before"]) if found["before"] else _RELEASE)


def _before(identifiers: str) -> bytes:
    """What precedes a release: numbers before texts, fewer identifiers before more."""
    found = (_NUMERIC + number(each) if each.isdigit() else _TEXT + word(each) for each in identifiers.split("."))
    return b"".join(found) + _END
