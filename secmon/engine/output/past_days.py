"""Files of past days: checksums that follow from those of the day before, and compression (ruleset.md 9.3)."""

import hashlib
import logging
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.common.logfile.rotation import FILE_MODE, LogSeries, finish

log = logging.getLogger("secmon.analysisd")

_ALGORITHMS = (("MD5  ", "md5"), ("SHA1 ", "sha1"), ("SHA256 ", "sha256"))


def tidy(series: Iterable[LogSeries], today: date, root: Path, *, compress: bool, sign: bool) -> bool:
    """Do for all days before ``today`` what is not done yet; whether all of it could be done.

    Paths in checksum files are relative to ``root``. What fails is logged and left for the next time.
    """
    done = True
    for one in series:
        try:
            if sign:
                _sign(one, today, root)
            if compress:
                finish(one, before=today)
        except OSError as error:
            done = False
            log.error("Files of past days below %s are left as they are: %s", one.archive, os_text(error))
    return done


def sum_path(part: Path) -> Path:
    """Where the checksums of a closed file stand."""
    return part.with_name(f"{part.name.removesuffix('.gz')}.sum")


def _sign(series: LogSeries, today: date, root: Path) -> None:
    """Checksums of what is not compressed yet. Those of the file before are part of them."""
    previous: Path | None = None
    for day, _, part in sorted(series.parts()):
        target = sum_path(part)
        if day < today and part.suffix != ".gz" and not target.exists():
            write_file(target, _checksums(part, previous, root), FILE_MODE)
        previous = target


def _checksums(part: Path, previous: Path | None, root: Path) -> bytes:
    lines = ["Current checksum:", *_lines(part, root), "", "Chained checksum:"]
    if previous is not None and previous.exists():
        lines += _lines(previous, root)
    return ("\n".join(lines) + "\n").encode()


def _lines(path: Path, root: Path) -> list[str]:
    sums = [hashlib.new(name, usedforsecurity=False) for _, name in _ALGORITHMS]
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            for one in sums:
                one.update(chunk)
    shown = path.relative_to(root)
    return [f"{label}({shown}) = {one.hexdigest()}" for (label, _), one in zip(_ALGORITHMS, sums, strict=True)]
