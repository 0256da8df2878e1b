"""The sources of the last ruleset that compiled, on disk with a checksum.

A damaged ruleset may still compile, without some of its rules: the checksum keeps it from being used.
"""

import hashlib
from pathlib import Path

import msgspec

from secmon.common.file_io import write_file
from secmon.engine.ruleset.compiled import File, RulesetSettings
from secmon.engine.ruleset.sources import Sources

LAST_GOOD = "var/db/ruleset-last-good"
_FORM = b"secmon-ruleset-1 sha256 "
_DIGEST = 64


class DamagedCopy(ValueError):
    """The copy is not what was written; the text says why."""


class _Copy(msgspec.Struct, array_like=True):
    """The content after the line with the checksum."""

    decoders: list[File]
    lists: dict[str, bytes]
    rules: list[File]
    settings: tuple[int, int, int, int]


def keep_copy(path: Path, sources: Sources, settings: RulesetSettings) -> None:
    """Write the copy. Raises OSError; then the previous copy stays."""
    numbers = (settings.alert_level, settings.mail_level, settings.default_timeframe, settings.field_limit)
    data = msgspec.msgpack.encode(_Copy(sources.decoders, sources.lists, sources.rules, numbers))
    write_file(path, _FORM + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def read_copy(path: Path) -> tuple[Sources, RulesetSettings]:
    """Raises OSError, and DamagedCopy for a file that :func:`keep_copy` has not written so."""
    head, _, data = path.read_bytes().partition(b"\n")
    if not head.startswith(_FORM) or len(head) != len(_FORM) + _DIGEST:
        raise DamagedCopy("it does not begin with a checksum")
    if head[len(_FORM) :] != hashlib.sha256(data).hexdigest().encode():
        raise DamagedCopy("its content does not have the checksum that it names")
    try:
        copy = msgspec.msgpack.decode(data, type=_Copy)
    except msgspec.MsgspecError as error:  # valid, but of another version
        raise DamagedCopy(str(error)) from None
    return Sources(copy.decoders, copy.lists, copy.rules), RulesetSettings(*copy.settings)
