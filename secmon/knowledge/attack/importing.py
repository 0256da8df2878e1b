"""Replacing the ATT&CK file of a node, and going back to the file before."""

from typing import IO

from secmon.common.download import DownloadError, open_unpacked
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.knowledge.attack.bundle import read_bundle
from secmon.knowledge.attack.knowledge_base import KnowledgeBase, build
from secmon.knowledge.attack.records import MAX_BYTES, AttackError, Record, write_records

_FILE_MODE = 0o660


def read_any(file: IO[bytes]) -> list[Record]:
    """The records of a STIX bundle, plain or gzip, checked as a whole. Raises AttackError."""
    try:
        content = open_unpacked(file, MAX_BYTES).read()
    except DownloadError as error:
        raise AttackError(str(error)) from None
    return list(read_bundle(content))


def install(paths: Paths, records: list[Record]) -> KnowledgeBase:
    """Make ``records`` the content in force; the file before is kept for :func:`roll_back`. Raises OSError."""
    base = build(records)
    content = write_records(iter(records))
    paths.attack.parent.mkdir(mode=0o770, exist_ok=True)
    if paths.attack.exists() and (before := paths.attack.read_bytes()) != content:
        write_file(paths.previous_attack, before, _FILE_MODE)
    write_file(paths.attack, content, _FILE_MODE)
    return base


def roll_back(paths: Paths) -> bool:
    """Put the file before the last import back; without one, the product's. False when nothing was imported.

    Raises OSError.
    """
    if not paths.attack.exists():
        return False
    if paths.previous_attack.exists():
        write_file(paths.attack, paths.previous_attack.read_bytes(), _FILE_MODE)
        paths.previous_attack.unlink()
    else:
        paths.attack.unlink()
    return True
