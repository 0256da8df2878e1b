"""What the logs of nodes must not hold: errors that no test has caused, and lines of no daemon."""

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

from secmon.common.logfile.text import INDENT
from tests.integration.kit import RealNode

_ENTRY = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ")
_TROUBLE = re.compile(r"\S+ \S+ \S+: (ERROR|CRITICAL): |.*WARNING: WARNING:")
_LIBRARY = re.compile(r"[IWEF]\d{4} |WARNING: All log messages before absl")


def troubles(node: RealNode, expected: Iterable[str] = ()) -> list[str]:
    """Entries of the node's log at levels ERROR and CRITICAL, but those with a match of one of ``expected``.

    Lines of libraries on standard error belong to them as well: they have neither a date nor a name.
    """
    known = re.compile("|".join(expected) or r"(?!)")
    return [
        f"{node.name}: {line}"
        for file in _files(node)
        for line in _entries(file)
        if (_TROUBLE.match(line) or _LIBRARY.match(line)) and not known.search(line)
    ]


def tracebacks(node: RealNode) -> list[str]:
    """Entries of the node's logs that hold the stack of an unforeseen error."""
    files = {*_files(node), *node.paths.logs.glob("*.log")}
    return sorted({f"{node.name}: {entry}" for file in files for entry in _entries(file) if "Traceback" in entry})


def undated(node: RealNode) -> list[str]:
    """Lines that the processes printed and that are no entries of a log."""
    return [line for name in ("start.log", "test-output.log") for line in _lines(node.paths.logs / name) if line
            and not _ENTRY.match(line)]  # fmt: skip


def _files(node: RealNode) -> list[Path]:
    logs = node.paths.logs
    return [logs / "ossec.log", *logs.glob("secmon/*/*/ossec-*.log*"), logs / "start.log", logs / "test-output.log"]


def _entries(file: Path) -> list[str]:
    """Entries of a log, each with its continuation lines, which are indented."""
    entries: list[str] = []
    for line in _lines(file):
        if entries and line.startswith(INDENT):
            entries[-1] += f"\n{line}"
        else:
            entries.append(line)
    return entries


def _lines(file: Path) -> list[str]:
    if not file.exists():
        return []
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8", "replace").splitlines()
