"""The audit log in the store of record, and a node's copy of it."""

import os
from pathlib import Path

from sqlalchemy import Connection, select

from secmon.cluster.record.schema import audit
from secmon.common.file_io import sync_folder
from secmon.security.audit import ChainEnd, first_prev, read_end


def bring_log_up_to(connection: Connection, path: Path, aside: str) -> Path | None:
    """Make the log at ``path`` the recorded one; where the one before it is kept, if it was another.

    Lines are appended to a log that ends with a recorded line. Raises OSError.
    """
    end = read_end(path)
    missing = _lines(connection, end.seq if end else 0)
    if end is not None and _continues(connection, end, missing):
        _append(path, missing)
        return None
    kept = None
    if end is not None:
        kept = path.with_name(f"{path.name}.{aside}")
        os.replace(path, kept)
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    _append(path, _lines(connection, 0))
    return kept


def _lines(connection: Connection, after: int) -> bytes:
    found = select(audit.c.lines).where(audit.c.seq > after).order_by(audit.c.seq)
    return b"".join(bytes(lines) for lines in connection.execute(found).scalars())


def _continues(connection: Connection, end: ChainEnd, missing: bytes) -> bool:
    """Whether the log is the recorded one up to its end."""
    if end.line is None or end.rest is not None or end.open:
        return False
    if missing:
        return first_prev(missing) == end.hash
    last = select(audit.c.lines).where(audit.c.seq == end.seq)
    lines = connection.execute(last).scalar_one_or_none()
    return lines is not None and end.hash.encode() in bytes(lines).rstrip(b"\n").rpartition(b"\n")[2]


def _append(path: Path, lines: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    with open(descriptor, "ab") as file:
        file.write(lines)
        file.flush()
        os.fsync(descriptor)
    sync_folder(path.parent)
