"""Verification of the audit log: finds lines that were altered, inserted or removed."""

import codecs
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from secmon.common.file_io import open_regular
from secmon.security.audit import NO_PREVIOUS_HASH, AuditLine, line_hash, read_line, rest_hash
from secmon.security.store.position import AuditEnd


class AuditProblem(msgspec.Struct, frozen=True):
    """The first faulty line (from 1), and the fault."""

    line: int
    text: str


class AuditReport(msgspec.Struct, kw_only=True):
    """The result of a verification.

    ``problem`` None: the chain is whole. ``store`` and ``revision`` are the last ones it leads to. ``voided``: changes
    that were logged and not committed. ``torn``: lines that a crash cut off; ``unfinished``: the last line is one.
    ``begun``: how often the chain began; more than once when the store was replaced or restored from a copy.
    ``missing``: lines before the first one there is; the rest of the log was checked nevertheless.
    """

    lines: int = 0
    changes: int = 0
    voided: int = 0
    torn: int = 0
    begun: int = 0
    missing: int = 0
    unfinished: bool = False
    store: str = ""
    revision: int = 0
    problem: AuditProblem | None = None


class _ChainError(Exception):
    def __init__(self, line: int, text: str) -> None:
        self.problem = AuditProblem(line, text)
        super().__init__(text)


def verify(path: Path, anchors: Iterable[AuditEnd] = ()) -> AuditReport:
    """Check the chain of the log at ``path`` line by line, up to the first fault. Raises OSError.

    A chain can be replaced as a whole or cut short: ``anchors`` are lines that it must contain, known from elsewhere
    (the store, the node's own log on another host). :func:`check_end` compares its end with the store.
    """
    with open(open_regular(path, os.O_RDONLY, follow=True), "rb") as file:
        return verify_lines(file, anchors)


def verify_lines(lines: Iterable[bytes], anchors: Iterable[AuditEnd] = ()) -> AuditReport:
    """The same for lines with their line feeds."""
    checker = _Checker(anchors)
    try:
        for number, raw in enumerate(lines, 1):
            checker.take(number, raw)
        checker.finish()
    except _ChainError as broken:
        checker.report.problem = broken.problem
    return checker.report


def check_end(report: AuditReport, store: str, revision: int) -> None:
    """Whether the log reaches the security store's ``revision``, read before the log was; else sets the problem."""
    if report.problem is not None:
        return
    if not report.lines and revision > 1:
        report.problem = AuditProblem(1, f"the log is empty, but the security store is at revision {revision}")
    elif report.lines and report.store != store:
        report.problem = AuditProblem(report.lines + 1, "the log is that of another security store")
    elif report.lines and report.revision < revision:
        report.problem = AuditProblem(report.lines + 1, f"{_missing(report.revision + 1, revision)} at the end")


def check_store(report: AuditReport, revision: int, end: AuditEnd | None, anchors: Iterable[AuditEnd]) -> None:
    """Whether the security store, read after the log, is as far as the log and ``anchors``; else sets the problem.

    ``revision`` and ``end`` are the store's. The log may be one line ahead: it is written before the change is
    committed. Anchors are lines whose changes were committed.
    """
    if report.problem is not None:
        return
    newest = max((each.seq for each in anchors), default=0)
    if report.revision > revision + 1:
        text = f"it leads to revision {report.revision}, but the security store is at revision {revision}"
    elif newest > (end.seq if end is not None else 0):
        text = f"the change of line {newest}, which was known before, is missing in the security store"
    else:
        return
    report.problem = AuditProblem(report.lines, f"{text}: the store was replaced by an older copy")


class _Checker:
    def __init__(self, anchors: Iterable[AuditEnd]) -> None:
        self.report = AuditReport()
        self._anchors = set(anchors)
        self._last: AuditLine | None = None
        self._hash = NO_PREVIOUS_HASH
        self._cut: list[bytes] = []  # lines that are not whole, since the last whole one
        self._open = False
        self._known = False  # whether the last whole line is an anchor

    def take(self, number: int, raw: bytes) -> None:
        self.report.lines = number
        self._open = not raw.endswith(b"\n")
        found = read_line(raw.removesuffix(b"\n"))
        if found is None:
            self._cut.append(raw.removesuffix(b"\n"))
            return
        line, body, claimed = found
        if line_hash(body) != claimed:
            raise _ChainError(number, "it was altered: it does not have the hash it carries")
        for text in self._faults(line):
            raise _ChainError(number - len(self._cut) if text is _NOT_A_LINE else number, text)
        if any(one.seq == line.seq and one.hash != claimed for one in self._anchors):
            raise _ChainError(number, f"it is not the line {line.seq} that was known before: the log was rewritten")
        self._known = AuditEnd(line.seq, claimed) in self._anchors
        self._anchors.discard(AuditEnd(line.seq, claimed))
        self._count(line)
        self._last, self._hash, self._cut = line, claimed, []

    def _faults(self, line: AuditLine) -> Iterator[str]:
        if (
            self._last is None and not self._cut and line.seq > 1
        ):  # the beginning is missing: what is left can be checked
            self.report.missing = line.seq - 1
            return
        seq = self._last.seq if self._last else 0
        if self._cut and line.kind != "torn":
            yield _NOT_A_LINE
        if line.seq > seq + 1:
            missing = line.seq - seq - 1
            yield "a line is missing before it" if missing == 1 else f"{missing} lines are missing before it"
        before = rest_hash(self._hash, b"\n".join(self._cut)) if self._cut else self._hash
        if line.prev != before:
            yield _NOT_A_LINE if self._cut else "it does not continue the line before it, one of them was replaced"
        if line.seq != seq + 1:
            yield f"its number is {line.seq}, not {seq + 1}"
        if line.kind == "void" and self._known:
            yield f"it takes back line {seq}, whose change was made: the store was replaced by an older copy"
        if text := _revision_fault(self._last, line):
            yield text

    def _count(self, line: AuditLine) -> None:
        report = self.report
        report.changes += line.kind == "change"
        report.voided += line.kind == "void"
        report.torn += line.kind == "torn"
        report.begun += line.kind == "anchor"
        report.store, report.revision = line.store, line.revision

    def finish(self) -> None:
        if len(self._cut) > 1 or (self._cut and not self._open):
            raise _ChainError(self.report.lines - len(self._cut) + 1, _NOT_A_LINE)
        if self._cut and not _begins_line(self._cut[0], self._last.seq + 1 if self._last else 1, self._hash):
            raise _ChainError(
                self.report.lines, f"{len(self._cut[0])} bytes after the last line do not belong to this log"
            )
        self.report.unfinished = bool(self._cut)
        if self.report.missing:
            lines = "line 1 is" if self.report.missing == 1 else f"lines 1 to {self.report.missing} are"
            raise _ChainError(1, f"the beginning of the log is missing: {lines} gone; the rest is whole")
        if gone := sorted(one.seq for one in self._anchors):
            raise _ChainError(self.report.lines + 1, f"line {gone[-1]}, which was known before, is missing at the end")


_NOT_A_LINE = "it is not a whole line of this log"

_NUMBER = b"+-.0123456789Ee"
_HEAD = 320
"""Bytes of a line within which its revision begins: all members before it are short."""


def _begins_line(rest: bytes, seq: int, prev: str) -> bool:
    """Whether ``rest`` is what a crash leaves of line ``seq``: its first bytes, and not all of them."""
    start = b'{"seq":%d,"prev":"%s",' % (seq, prev.encode())
    if not rest.startswith(start):
        return start.startswith(rest)
    if len(rest) > _HEAD and b'"revision":' not in rest[:_HEAD]:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(rest)  # takes a character that is cut
        msgspec.json.decode(rest.rstrip(_NUMBER))  # to the decoder a number that is cut is malformed
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except UnicodeDecodeError:
        return False
    return False


def _revision_fault(last: AuditLine | None, line: AuditLine) -> str | None:
    """Why ``line`` cannot follow ``last`` as far as the revisions of the store go."""
    match line.kind:
        case "anchor":
            fits = last is None or last.kind == "torn" or last.store != line.store or last.revision > line.revision + 1
            return None if fits else "it begins a new chain without a reason"
        case "torn":
            return None if last is None or last.revision == line.revision else "its revision does not fit"
    if last is None or last.store != line.store:
        return "the chain does not begin with an anchor"
    if line.kind == "void":
        fits = last.kind in ("change", "torn") and line.revision == last.revision - 1
        return None if fits else "it takes back a change that was not written down"
    if line.revision > last.revision + 1:
        return f"{_missing(last.revision + 1, line.revision - 1)} before it"
    return None if line.revision == last.revision + 1 else f"its revision {line.revision} was there before"


def _missing(first: int, last: int) -> str:
    """The text for revisions that have no line."""
    if first == last:
        return f"the change to revision {first} is missing"
    return f"the changes to revisions {first} to {last} are missing"
