"""Checksum files of closed log parts, each with the checksums of the file before it (ruleset.md 9.3)."""

import hashlib
import os
from datetime import date
from pathlib import Path

from secmon.common.file_io import open_regular, write_file
from secmon.common.logfile.log_series import FILE_MODE, LogSeries

_ALGORITHMS = (("MD5  ", "md5"), ("SHA1 ", "sha1"), ("SHA256 ", "sha256"))


def write_checksums(series: LogSeries, root: Path, *, before: date | None = None) -> None:
    """Write the missing checksum files of parts that are not compressed; ``before``: of earlier days only.

    Paths in them are relative to ``root``. Raises OSError.
    """
    previous: Path | None = None
    for day, _, part in sorted(series.parts()):
        target = checksum_path(part)
        if (before is None or day < before) and part.suffix != ".gz" and not target.exists():
            write_file(target, _checksums(part, previous, root), FILE_MODE)
        previous = target


def checksum_path(part: Path) -> Path:
    """The checksum file of a closed part."""
    return part.with_name(f"{part.name.removesuffix('.gz')}.sum")


def _checksums(part: Path, previous: Path | None, root: Path) -> bytes:
    lines = ["Current checksum:", *_lines(part, root), "", "Chained checksum:"]
    if previous is not None and previous.exists():
        lines += _lines(previous, root)
    return ("\n".join(lines) + "\n").encode()


def _lines(path: Path, root: Path) -> list[str]:
    sums = [hashlib.new(name, usedforsecurity=False) for _, name in _ALGORITHMS]
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        while chunk := file.read(1 << 20):
            for one in sums:
                one.update(chunk)
    shown = path.relative_to(root)
    return [f"{label}({shown}) = {one.hexdigest()}" for (label, _), one in zip(_ALGORITHMS, sums, strict=True)]
