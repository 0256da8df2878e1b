"""The standard library's logging, written to the daemon log and the cluster log (manager.md 12.1, cluster.md 7.3)."""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, MutableMapping
from pathlib import Path
from typing import Any

from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.logfile.append_file import AppendFile, WriteTrouble
from secmon.common.logfile.text import bounded, message_text, one_line, stamp
from secmon.common.paths import Paths

LEVELS = {
    "debug2": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""Names of levels; ``debug2`` is ``debug`` with process, file, line and function in each entry."""

_DAEMONS = {name: f"secmon-{name}" for name in ("analysisd", "apid", "authd", "clusterd", "monitord", "remoted")}
_DAEMONS |= {
    "api": "secmon-apid",
    "master": "secmon-clusterd",
    "worker": "secmon-clusterd",
    "engine": "secmon-analysisd",
}
_CLUSTER_ROOMS = {"clusterd": "Cluster", "master": "Master", "worker": "Worker"}
_TRACEBACKS = logging.Formatter()


class DaemonLog:
    """The handlers of one process; :meth:`close` takes them away again."""

    def __init__(self, handlers: Collection[logging.Handler], level: str) -> None:
        self.handlers = tuple(handlers)
        self._root = logging.getLogger()
        self._own = logging.getLogger("secmon")
        self._before = self._root.level, self._own.level
        for handler in self.handlers:
            self._root.addHandler(handler)
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Least important level written; libraries' own entries need at least ``warning``."""
        self._own.setLevel(LEVELS[level])
        self._root.setLevel(max(LEVELS[level], logging.WARNING))

    def close(self) -> None:
        """Remove and close the handlers and restore the levels."""
        for handler in self.handlers:
            self._root.removeHandler(handler)
            handler.close()
        self._root.setLevel(self._before[0])
        self._own.setLevel(self._before[1])


def setup_daemon_log(
    paths: Paths,
    daemon: str,
    level: str = "info",
    formats: Collection[str] = ("plain",),
    *,
    clock: Clock | None = None,
    counters: Counters | None = None,
    node: str = "",
) -> DaemonLog:
    """Send what this process logs to ``logs/ossec.log`` (``plain``) and/or ``logs/ossec.json`` (``json``).

    ``daemon`` is the process's name, such as ``secmon-apid``; ``level`` one of :data:`LEVELS`. Entries of the loggers
    ``secmon.clusterd``, ``secmon.master`` and ``secmon.worker`` go to ``logs/cluster.log`` as well, where ``node``
    names the worker. A file that cannot be written is counted (``log.write_errors``), never raised.
    """
    clock = clock or SystemClock()
    trouble = WriteTrouble("log.write_errors", clock, counters or Counters())
    detailed = level == "debug2"
    handlers: list[logging.Handler] = [_ClusterHandler(paths.logs / "cluster.log", clock, trouble, node)]
    if "plain" in formats:
        handlers.append(_PlainHandler(paths.logs / "ossec.log", clock, trouble, daemon, detailed))
    if "json" in formats:
        handlers.append(_JsonHandler(paths.logs / "ossec.json", clock, trouble, daemon, detailed))
    return DaemonLog(handlers, level)


def cluster_logger(logger: logging.Logger, tag: str, subtag: str) -> logging.LoggerAdapter[logging.Logger]:
    """``logger`` with the tag and subtag that its entries have in ``logs/cluster.log``, e.g. ``Master``, ``D API``."""
    return _ClusterAdapter(logger, {"cluster_tag": tag, "cluster_subtag": subtag})


class _ClusterAdapter(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def tag_of(logger: str, daemon: str) -> str:
    """``secmon.clusterd.link`` is ``secmon-clusterd:link``; a module that is no daemon's own is ``daemon:module``."""
    parts = logger.split(".")
    if parts[0] != "secmon":  # a library's
        return daemon if logger == "root" else f"{daemon}:{one_line(parts[0])}"
    own = _DAEMONS.get(parts[1]) if len(parts) > 1 else None
    name = own or daemon
    return f"{name}:{one_line(parts[-1])}" if len(parts) > (2 if own else 1) else name


def level_word(number: int) -> str:
    """The nearest of the five levels at or below ``number``."""
    for known in (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO):
        if number >= known:
            return logging.getLevelName(known)
    return "DEBUG"


def _full_text(record: logging.LogRecord) -> str:
    """Message, then traceback and stack, if any, on lines of their own."""
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001 - an argument's own __str__ may raise anything; the entry is kept
        message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        text = f"{message} (arguments do not fit: {type(error).__name__})"
    if record.exc_info:
        text += "\n" + _TRACEBACKS.formatException(record.exc_info)
    if record.stack_info:
        text += "\n" + record.stack_info
    return text


class _FileHandler(logging.Handler, ABC):
    """Formats a record and appends it; a failure is noted, never raised."""

    def __init__(self, path: Path, clock: Clock, trouble: WriteTrouble) -> None:
        super().__init__()
        self._file = AppendFile(path)
        self._clock = clock
        self._trouble = trouble

    def emit(self, record: logging.LogRecord) -> None:
        line = self.line(record, stamp(self._clock.now()))
        try:
            self._file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            self._trouble.note(str(self._file.path), error)

    @abstractmethod
    def line(self, record: logging.LogRecord, when: str) -> str:
        """The record as the file has it, without the end of the line."""

    def close(self) -> None:
        self.acquire()
        try:
            self._file.close()
        finally:
            self.release()
        super().close()


class _PlainHandler(_FileHandler):
    def __init__(self, path: Path, clock: Clock, trouble: WriteTrouble, daemon: str, detailed: bool) -> None:
        super().__init__(path, clock, trouble)
        self._daemon, self._detailed = daemon, detailed

    def line(self, record: logging.LogRecord, when: str) -> str:
        tag = tag_of(record.name, self._daemon)
        if self._detailed:
            file = one_line(record.filename)
            tag += f"[{os.getpid()}] {file}:{record.lineno} at {one_line(record.funcName or '')}()"
        return f"{when} {tag}: {level_word(record.levelno)}: {message_text(_full_text(record))}"


class _JsonHandler(_PlainHandler):
    def line(self, record: logging.LogRecord, when: str) -> str:
        entry: dict[str, str | int] = {"timestamp": when, "tag": tag_of(record.name, self._daemon)}
        if self._detailed:
            entry |= {"pid": os.getpid(), "file": record.filename, "line": record.lineno}
            entry["routine"] = record.funcName or ""
        text = bounded(_full_text(record)).encode("utf-8", "backslashreplace").decode()  # lone surrogates are no JSON
        entry |= {"level": level_word(record.levelno).lower(), "description": text}
        return json.dumps(entry)


class _ClusterHandler(_FileHandler):
    """``logs/cluster.log``: entries of the cluster's loggers only."""

    def __init__(self, path: Path, clock: Clock, trouble: WriteTrouble, node: str) -> None:
        super().__init__(path, clock, trouble)
        self._node = node
        self.addFilter(lambda record: _cluster_room(record) is not None)

    def line(self, record: logging.LogRecord, when: str) -> str:
        room = _cluster_room(record) or ""
        tag = getattr(record, "cluster_tag", None) or _CLUSTER_ROOMS[room]
        if tag == "Worker" and self._node:
            tag = f"Worker {self._node}"
        subtag = getattr(record, "cluster_subtag", None) or "Main"
        text = message_text(_full_text(record))
        return f"{when} {level_word(record.levelno)}: [{one_line(str(tag))}] [{one_line(str(subtag))}] {text}"


def _cluster_room(record: logging.LogRecord) -> str | None:
    parts = record.name.split(".", 2)
    return parts[1] if parts[0] == "secmon" and len(parts) > 1 and parts[1] in _CLUSTER_ROOMS else None
