"""Versions as keys: bytes that compare as the versions do in their ecosystem (agent-data.md 9.6).

So the order of an ecosystem is needed once for each version, and a database can compare. An ecosystem without a library
that does this has a module of its own, each a page: libraries that compare two objects take 10 to 40 microseconds.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

from secmon.knowledge.vulnerabilities.versions import apk, deb, pacman, pypi, rpm, semver, windows
from secmon.knowledge.vulnerabilities.versions.parts import MAX_VERSION, NoVersion

VersionKey = Callable[[str], bytes]

ORDERS: Mapping[str, VersionKey] = {
    "apk": apk.key,
    "deb": deb.key,
    "npm": semver.key,
    "pacman": pacman.key,
    "pypi": pypi.key,
    "rpm": rpm.key,
    "windows": windows.key,
}
"""The orders by the format of packages as agents name it; ``windows`` is for builds of the system."""

FIRST = b""
"""Before all versions."""
_UNKNOWN = b"\xff\xff"


@lru_cache(maxsize=1 << 16)
def version_key(order: str, version: str) -> bytes:
    """The key of ``version``; one that is no version comes after all others, so that no known fix is before it."""
    try:
        if len(version) > MAX_VERSION:
            raise NoVersion(version[:MAX_VERSION])
        return ORDERS[order](version)
    except NoVersion:
        return _UNKNOWN + version[:MAX_VERSION].encode("utf-8", "replace")


def is_version(order: str, version: str) -> bool:
    """Whether ``version`` is one of this order."""
    return not version_key(order, version).startswith(_UNKNOWN)


def just_after(key: bytes) -> bytes:
    """The end of a range whose last version has ``key``: a version without a release stands for all its releases."""
    return key + b"\xff"
