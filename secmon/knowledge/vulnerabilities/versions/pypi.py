"""The order of versions of Python packages (PEP 440), as ``packaging`` reads them."""

from packaging.version import InvalidVersion, Version

from secmon.knowledge.vulnerabilities.versions.parts import NoVersion, number, word

_STAGES = {"a": b"\x01", "b": b"\x02", "rc": b"\x03"}
_DEVELOPMENT_ONLY, _FINAL = b"\x00", b"\x04"
_NONE, _SOME, _MORE = b"\x00", b"\x01", b"\x02"


def key(version: str) -> bytes:
    """Raises NoVersion."""
    try:
        found = Version(version)
    except InvalidVersion as error:
        raise NoVersion(version) from error
    release = list(found.release)
    while release and release[-1] == 0:
        release.pop()
    return b"".join(
        (
            _number(found.epoch),
            *(_SOME + _number(part) for part in release),
            _NONE,
            _stage(found),
            _NONE if found.post is None else _SOME + _number(found.post),
            _MORE if found.dev is None else _SOME + _number(found.dev),
            _local(found.local),
        )
    )


def _stage(version: Version) -> bytes:
    if version.pre is not None:
        letter, count = version.pre
        return _STAGES[letter] + _number(count)
    return _DEVELOPMENT_ONLY if version.dev is not None and version.post is None else _FINAL


def _local(local: str | None) -> bytes:
    """Texts before numbers, fewer parts before more; none before any."""
    parts = local.split(".") if local else ()
    return b"".join(_MORE + number(part) if part.isdigit() else _SOME + word(part) for part in parts) + _NONE


def _number(value: int) -> bytes:
    return number(str(value))
