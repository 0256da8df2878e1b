"""The order of versions that are numbers and points, such as builds of Windows."""

import re

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def key(version: str) -> bytes:
    """Trailing zeros do not count. Raises NoVersion."""
    if not _VERSION.fullmatch(version):
        raise NoVersion(version)
    numbers = version.split(".")
    while numbers and not numbers[-1].strip("0"):
        numbers.pop()
    return b"".join(b"\x01" + number(part) for part in numbers) + b"\x00"
