"""Replacing the ATT&CK file of a node, and going back to the file before."""

import gzip
import io
import zlib

from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.knowledge.attack.bundle import read_bundle
from secmon.knowledge.attack.knowledge_base import KnowledgeBase, build
from secmon.knowledge.attack.records import MAX_BYTES, AttackError, Record, write_records

_FILE_MODE = 0o660
_GZIP = b"\x1f\x8b"


def read_any(content: bytes) -> list[Record]:
    """The records of a STIX bundle, plain or gzip, checked as a whole. Raises AttackError."""
    return list(read_bundle(_unpacked(content) if content.startswith(_GZIP) else content))


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


def _unpacked(content: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise AttackError(f"it is not a whole gzip file: {error}") from None
    if len(data) > MAX_BYTES:
        raise AttackError(f"it has more than {MAX_BYTES >> 20} MB")
    return data
