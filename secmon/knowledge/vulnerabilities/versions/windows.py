"""The order of builds of Windows: ``17763.5329``, also after the version, ``10.0.17763.5329``."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number

_BUILD = re.compile(r"(?:[0-9]+\.[0-9]+\.)?([0-9]+)(?:\.([0-9]+))?")


def key(version: str) -> bytes:
    """Raises NoVersion."""
    found = _BUILD.fullmatch(version)
    if found is None:
        raise NoVersion(version)
    return number(found[1]) + number(found[2] or "")
