"""The audit log: one line for each change of the security state, on the master.

A line is a JSON object: time, user, client, operation, changed rows, and the revision of the store after the change.
Secrets are left out. ``hash`` is the SHA-256 of the line without it, ``prev`` the hash of the line before: a line that
is altered, removed or inserted breaks the chain, and a gap in the revisions shows a change without a line. The security
store keeps number and hash of the last line, committed with its change, which reveals a log that was cut short, deleted
or replaced as a whole. Such a log is continued after the line that the store knows, so that the gap stays visible.

A line is on the disk before its change is committed: a change that cannot be logged is refused. Both happen under the
write lock of the store, which all processes share. Kinds of lines:

- ``change``: a change of the security state.
- ``anchor``: the begin of the chain, also after the store was replaced or restored from a copy.
- ``void``: the change of the line before was logged and not committed (a crash in between). Written before the next
  change, which leads to the same revision.
- ``torn``: a crash has cut off the line before; what is left of it stays in the file.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from secmon.common.clock import Clock, iso_micro
from secmon.common.errors import write_error
from secmon.common.file_io import sync_folder
from secmon.security.store.position import AuditEnd
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import RowChange, WriteTransaction

log = logging.getLogger("secmon.audit")

NO_PREVIOUS_HASH = "0" * 64

_HASH = b',"hash":"'
_SUFFIX = len(_HASH) + 64 + len(b'"}')
_BLOCK = 1 << 16
_OMITTED_COLUMNS = frozenset({"password", "public_pem", "created_at"})
"""Columns that are secret or of no interest."""


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """The author of a change: ``client`` is an address, ``context`` the hash of a run_as login's context.

    ``node`` is the worker that forwarded the request, by its certificate; empty for requests to the master.
    ``issuer`` is the worker that issued the token; empty for the master.
    """

    user: str
    user_id: int
    operation: str
    client: str = ""
    request: str = ""
    context: str | None = None
    node: str = ""
    issuer: str = ""


class AuditLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line without its hash. ``revision`` is the store's after it; ``time`` UTC with microseconds."""

    seq: int
    prev: str
    kind: Literal["anchor", "change", "void", "torn"]
    time: str
    store: str
    revision: int
    by: Actor | None = None
    changes: list[dict[str, Any]] = []


class ChainEnd(NamedTuple):
    """The end of the chain: the last whole line, its hash, and the bytes that a crash has left after it.

    ``rest`` is None when there are none. ``open``: the file does not end with a line feed.
    """

    line: AuditLine | None
    hash: str
    rest: bytes | None
    open: bool

    @property
    def seq(self) -> int:
        return self.line.seq if self.line else 0


@contextmanager
def audited(store: SecurityStore, path: Path, author: Actor, clock: Clock) -> Iterator[WriteTransaction]:
    """One transaction on the security store, logged at ``path``. Blocks on the disk.

    Raises 1005 at the end, and changes nothing, when the log cannot be written. A transaction without changes writes no
    line.
    """
    with store.write() as transaction:
        yield transaction
        if transaction.recorded:
            _append(path, transaction, author, clock)


def audited_write(
    store: SecurityStore, path: Path, author: Actor, change: Callable[[WriteTransaction], object], clock: Clock
) -> None:
    """``change`` within :func:`audited`."""
    with audited(store, path, author, clock) as transaction:
        change(transaction)


def _append(path: Path, transaction: WriteTransaction, author: Actor, clock: Clock) -> None:
    """Append the line of ``transaction``, durably; the caller holds the store's write lock. Raises 1005."""
    changes = [_describe(one) for one in transaction.changes() if one.table != "sequences"]
    try:
        descriptor = _open(path)
        try:
            ended = _end_to_continue(descriptor, path, transaction)
            writer = _Writer(ended, transaction.store_id, iso_micro(clock.now()))
            writer.prepare(transaction.revision)
            writer.add("change", transaction.revision, author, changes)
            _write_all(descriptor, bytes(writer.text))
            os.fsync(descriptor)
            transaction.audit_lines = _lines_after(descriptor, transaction.audit_end())
            transaction.set_audit_end(writer.end)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise write_error(1005, error, f"nothing was changed, because it could not be written down; {path}") from error


def _end_to_continue(descriptor: int, path: Path, transaction: WriteTransaction) -> ChainEnd:
    """What the next line follows: the end of the file, or the line that the store knows when the file lacks it."""
    ended, known = _find_end(descriptor), transaction.audit_end()
    if known is None or _contains(descriptor, known):
        return ended
    log.error(
        "%s does not hold line %d as the security store knows it: lines were removed or altered; run: "
        "secmon audit verify",
        path,
        known.seq,
    )
    last = AuditLine(known.seq, "", "change", "", transaction.store_id, transaction.revision - 1)
    return ChainEnd(last, known.hash, None, ended.open)


class _Writer:
    """Lines that continue the chain."""

    def __init__(self, ended: ChainEnd, store: str, time: str) -> None:
        self.text = bytearray()
        self._ended, self._store, self._time = ended, store, time
        self._seq, self._prev = ended.seq, ended.hash

    @property
    def end(self) -> AuditEnd:
        return AuditEnd(self._seq, self._prev)

    def prepare(self, revision: int) -> None:
        """Add the lines that must precede the change to ``revision``."""
        ended = self._ended
        last = ended.line
        if ended.open:
            self.text += b"\n"
        if ended.rest is not None:
            self._prev = rest_hash(ended.hash, ended.rest)
            self.add("torn", last.revision if last else revision - 1)
        if last is None or last.store != self._store or last.revision > revision:
            self.add("anchor", revision - 1)
        elif last.revision == revision:
            self.add("void", revision - 1)

    def add(
        self,
        kind: Literal["anchor", "change", "void", "torn"],
        revision: int,
        author: Actor | None = None,
        changes: list[dict[str, Any]] | None = None,
    ) -> None:
        self._seq += 1
        line = AuditLine(self._seq, self._prev, kind, self._time, self._store, revision, author, changes or [])
        body = msgspec.json.encode(line)
        self._prev = line_hash(body)
        self.text += body[:-1] + _HASH + self._prev.encode() + b'"}\n'


def read_end(path: Path) -> ChainEnd | None:
    """The end of the log at ``path``; None when there is no log. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _find_end(descriptor)
    finally:
        os.close(descriptor)


def last_seq(lines: bytes) -> int:
    """The number of the last whole one of these lines; 0 when there is none."""
    found = (read_line(raw) for raw in reversed(lines.splitlines()))
    return next((one[0].seq for one in found if one is not None), 0)


def first_prev(lines: bytes) -> str | None:
    """The hash that the first of these lines follows; None when it is no line."""
    found = read_line(lines.partition(b"\n")[0])
    return None if found is None else found[0].prev


def line_hash(body: bytes) -> str:
    """Hash of a line without its ``hash`` member."""
    return hashlib.sha256(body).hexdigest()


def rest_hash(before: str, rest: bytes) -> str:
    """``prev`` of the line that reports the ``rest`` of lines cut off after the line with hash ``before``."""
    return hashlib.sha256(before.encode() + rest).hexdigest()


def read_line(raw: bytes) -> tuple[AuditLine, bytes, str] | None:
    """A line, the bytes that its hash is of, and the hash it claims; None for anything that is not a whole line."""
    body, suffix = raw[:-_SUFFIX] + b"}", raw[-_SUFFIX:]
    if not (suffix.startswith(_HASH) and suffix.endswith(b'"}')):
        return None
    try:
        line = msgspec.json.decode(body, type=AuditLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return line, body, suffix[len(_HASH) : -2].decode("ascii", "replace")


def _describe(change: RowChange) -> dict[str, Any]:
    shown: dict[str, Any] = {"table": change.table, "key": list(change.key)}
    if change.row is None:
        return shown | {"deleted": True}
    return shown | {"row": {name: value for name, value in change.row.items() if name not in _OMITTED_COLUMNS}}


def _open(path: Path) -> int:
    """Open for appending; created with its folder if missing, owned like the folder above it."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    folder = path.parent
    if not folder.is_dir():
        folder.mkdir(mode=0o750, parents=True)
        _give_to_owner_of(folder.parent, folder)
        sync_folder(folder.parent)
    descriptor = os.open(path, flags | os.O_CREAT, 0o640)
    _give_to_owner_of(folder, path)
    sync_folder(folder)
    return descriptor


def _give_to_owner_of(model: Path, path: Path) -> None:
    """Commands may run as root; the daemon that writes later does not."""
    if os.geteuid() == 0:
        status = model.stat()
        os.chown(path, status.st_uid, status.st_gid)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _find_end(descriptor: int) -> ChainEnd:
    """The last whole line, found from the end."""
    is_open = False
    rest: list[bytes] = []
    for number, raw in enumerate(_parts_backward(descriptor)):
        if number == 0:
            if not raw:  # the file ends with a line feed
                continue
            is_open = True
        found = read_line(raw)
        if found is not None:
            return ChainEnd(found[0], found[2], _joined(rest), is_open)
        rest.append(raw)
    return ChainEnd(None, NO_PREVIOUS_HASH, _joined(rest), is_open)


def _contains(descriptor: int, known: AuditEnd) -> bool:
    """Whether the log has this line, or one that follows it, whose change was then logged and not committed."""
    follows = False
    for raw in _parts_backward(descriptor):
        found = read_line(raw)
        if found is None:
            continue
        line, body, _ = found
        if line.seq <= known.seq:
            return (line.seq, line_hash(body)) == known
        follows = (line.seq - 1, line.prev) == known
    return follows


def _lines_after(descriptor: int, known: AuditEnd | None) -> bytes:
    """The end of the log, from behind the line whose change was committed last; all of it if there is no such line."""
    later: list[bytes] = []
    last = 0 if known is None else known.seq
    for raw in _parts_backward(descriptor):
        found = read_line(raw)
        if found is not None and found[0].seq == last:
            break
        later.append(raw)
    return b"\n".join(reversed(later))


def _joined(rest: list[bytes]) -> bytes | None:
    """Lines given last first, in their order."""
    return b"\n".join(reversed(rest)) if rest else None


def _parts_backward(descriptor: int) -> Iterator[bytes]:
    """The text between line feeds, last part first; nothing for an empty file."""
    position = size = os.fstat(descriptor).st_size
    held = b""
    while position:
        count = min(_BLOCK, position)
        position -= count
        held, *whole = (os.pread(descriptor, count, position) + held).split(b"\n")
        yield from reversed(whole)
    if size:
        yield held
