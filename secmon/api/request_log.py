"""The request log of the API: ``logs/api.log`` and/or ``logs/api.json`` (conventions.md 12)."""

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from secmon.api.limits import EVENT_PATHS
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.logfile import AppendFile, WriteTrouble
from secmon.common.logfile.log_series import api_series
from secmon.common.logfile.rotation import LogRotation, RotationPolicy, first_day
from secmon.common.logfile.secrets import MASK, SecretMasker
from secmon.common.logfile.text import bounded, message_text, one_line, stamp
from secmon.common.paths import Paths
from secmon.config.api import Logs
from secmon.security.credentials import context_hash

LEVELS = {"debug2": 5, "debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""Importance of entries. The level ``disabled`` writes nothing; an unknown one acts as ``info``."""

_OFF = 100
MAX_LOGGED = 16_384
"""Characters of the JSON text of parameters or of a body; more is logged as ``{"truncated": <the first of them>}``."""

NOT_PARSED: Mapping[str, str] = {"truncated": ""}
"""In place of a body that is too large to be parsed for the log."""

# fmt: off
HARMLESS_HEADERS = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "connection",
    "content-encoding", "content-length", "content-type", "date", "expect", "forwarded", "host", "keep-alive",
    "origin", "pragma", "referer", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-request-id",
})
# fmt: on
"""Headers whose values are logged. Others may hold a secret: many proxies have a header of their own for it."""

_WAIT_SECONDS = 0.02  # for another process that rotates at this moment; else the next entry tries again
_MAX_FIELD = 1024  # characters of user, address, method and path each
_RUN_AS_LOGIN = "/security/user/authenticate/run_as"


class RequestLog:
    """Writes entries, one line each, and rotates by day or by size. One instance a node; call it from one thread.

    Entries of requests wait for :meth:`flush`, which writes all of them at once: that way they cost a third. What
    cannot be written is counted (``api.log.write_errors``) and never stops a request. Compression runs in a thread.
    """

    def __init__(self, paths: Paths, settings: Logs, clock: Clock, counters: Counters) -> None:
        self._level = _OFF if settings.level == "disabled" else LEVELS.get(settings.level, LEVELS["info"])
        by_size = settings.max_size.enabled
        self._policy = RotationPolicy(by_day=not by_size, max_bytes=settings.max_size.size_bytes if by_size else 0)
        self._clock = clock
        self._second = -1
        self._stamp = ""
        self._trouble = WriteTrouble("api.log.write_errors", clock, counters)
        self._rotation_trouble = WriteTrouble("api.log.rotation_errors", clock, counters)
        self._compressor = ThreadPoolExecutor(1, "api-log")
        self._closed = False
        plain, as_json = api_series(paths)
        self._plain = _Output(LogRotation(plain, self._policy)) if "plain" in settings.formats else None
        self._json = _Output(LogRotation(as_json, self._policy)) if "json" in settings.formats else None
        self._outputs = [output for output in (self._plain, self._json) if output is not None]
        for output in self._outputs:
            self._tidy(output.rotation)  # what an interruption left

    def request(
        self,
        user: str,
        hash: str | None,
        ip: str,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Any,
        seconds: float,
        status: int,
    ) -> None:
        """Log a request that was answered, with the next :meth:`flush` or :meth:`message`.

        ``hash`` is the run_as context hash of the token, else None; a run_as login without one gets it from the body.
        ``path`` has no query. ``params``: decoded query, first value of each name. ``body``: parsed JSON, ``{}`` or
        None without. Secrets are masked here, whatever the level.
        """
        if self._level > LEVELS["info"]:
            return
        if hash is None and path == _RUN_AS_LOGIN:
            hash = _login_hash(body)
        params_text, body_text = _dump(params), _dump(self._body(method, path, body))
        user, ip, method, path = map(_field, (user, ip, method, path))
        when = self._now()
        if self._plain:
            who = f"{user} ({hash})" if hash else user
            uri = f"{method} {path}".replace('"', '\\"')
            line = (
                f'{when} INFO: {who} {ip} "{uri}" with parameters {params_text} and body {body_text} '
                f"done in {seconds:.3f}s: {status}\n"
            )
            self._plain.waiting.append(line)
        if self._json:
            suffix = f', "hash_auth_context": {json.dumps(hash)}' if hash else ""
            payload = (
                f'{{"user": {json.dumps(user)}, "ip": {json.dumps(ip)}, "http_method": {json.dumps(method)}, '
                f'"uri": {json.dumps(f"{method} {path}")}, "parameters": {params_text}, "body": {body_text}, '
                f'"time": "{seconds:.3f}s", "status_code": {status}{suffix}}}'
            )
            self._json.waiting.append(_json_line(when, "INFO", "request", payload))

    def message(self, level: str, text: str, *, traceback: str | None = None) -> None:
        """Log something other than a request; ``level`` is one of :data:`LEVELS`.

        Errors carry their traceback in the payload: ``<text>. <traceback>``.
        """
        if LEVELS[level] < self._level:
            return
        when, word = self._now(), level.upper()
        full = f"{text}. {traceback}" if traceback else text
        if self._plain:
            self._plain.waiting.append(f"{when} {word}: {message_text(full)}\n")
        if self._json:
            kind = "error" if LEVELS[level] >= LEVELS["error"] else "informative"
            self._json.waiting.append(_json_line(when, word, kind, json.dumps(bounded(full))))
        self.flush()

    def headers(self, headers: Mapping[bytes, bytes]) -> None:
        """At level debug2, log the headers of a request: the values of :data:`HARMLESS_HEADERS`, and all names."""
        if self._level <= LEVELS["debug2"]:
            texts = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
            shown = {name: value if name in HARMLESS_HEADERS else MASK for name, value in texts.items()}
            self.message("debug2", f"Received headers {_dump(shown)}")

    def flush(self) -> None:
        """Write the entries that wait: of each file in one piece, unless a limit of size may fall among them."""
        for output in self._outputs:
            lines, output.waiting = output.waiting, []
            if self._policy.by_day and lines:
                self._write(output, lines)
            elif lines:
                for line in lines:
                    self._write(output, [line])

    def close(self) -> None:
        """Finish compressions and close the files. Blocks while a file is compressed: call it in a thread.

        A straggler's entry is still written; what it closes is compressed at the next start.
        """
        self.flush()
        self._closed = True
        self._compressor.shutdown()
        for output in self._outputs:
            output.file.close()

    def _body(self, method: str, path: str, body: Any) -> Any:
        if body is None:
            return {}
        if path in EVENT_PATHS and method == "POST" and self._level >= LEVELS["info"]:
            events = body.get("events") if isinstance(body, Mapping) else None
            return {"events": len(events) if isinstance(events, list) else 0}
        # No operation takes a bare value, and no name says whether it is a secret.
        return body if isinstance(body, Mapping | list) else MASK

    def _now(self) -> str:
        """The time stamp of an entry, computed once a second. Entries that wait all have this one."""
        now = self._clock.now()
        second = int(now.timestamp())
        if second != self._second:
            self.flush()  # to the file of their own day
            self._second, self._stamp = second, stamp(now)
        return self._stamp

    def _write(self, output: "_Output", lines: list[str]) -> None:
        data = "".join(lines).encode("utf-8", "backslashreplace")
        try:
            self._rotate(output, len(data))
        except OSError as error:
            self._rotation_trouble.note(str(output.rotation.series.archive), error)
        try:
            output.file.write(data)
        except OSError as error:
            self._trouble.note(str(output.rotation.series.current), error, records=len(lines))

    def _rotate(self, output: "_Output", addition: int) -> None:
        """Close the file when what is to be written, ``addition`` bytes, belongs to the next one."""
        policy, rotation = self._policy, output.rotation
        if output.day == self._stamp[:10] if policy.by_day else not policy.full(output.file.size(), addition):
            return
        closed = rotation.rotate(self._clock.now().astimezone(), addition=addition, wait_seconds=_WAIT_SECONDS)
        if policy.by_day:
            output.day = _period(rotation)
        if closed:
            self._tidy(rotation)

    def _tidy(self, rotation: LogRotation) -> None:
        """Compress closed parts, in a thread."""
        if self._closed:
            return
        today = self._clock.now().astimezone().date()
        self._compressor.submit(rotation.tidy, today).add_done_callback(partial(self._tidied, rotation))

    def _tidied(self, rotation: LogRotation, future: Future[Any]) -> None:
        error = future.exception()
        if isinstance(error, OSError):  # the part stays as it is; the next rotation or start tries again
            self._rotation_trouble.note(str(rotation.series.archive), error)
        elif error:
            raise error


class _Output:
    """A file, the day (``YYYY/MM/DD``) of its first entry, as last seen, and the lines that wait for it."""

    def __init__(self, rotation: LogRotation) -> None:
        self.rotation = rotation
        self.file = AppendFile(rotation.series.current)
        self.day = _period(rotation)
        self.waiting: list[str] = []


def _period(rotation: LogRotation) -> str:
    day = first_day(rotation.series.current)
    return f"{day:%Y/%m/%d}" if day else ""


def _login_hash(body: Any) -> str | None:
    """The hash of a login's body, its password masked (conventions.md 12.1); None for one that no login accepts."""
    try:
        if not isinstance(body, Mapping) or body is NOT_PARSED or not _small(body):
            return None
        return context_hash({**body, "password": MASK} if "password" in body else body)
    except (TypeError, ValueError, RecursionError):
        return None


def _json_line(when: str, level: str, kind: str, payload: str) -> str:
    return f'{{"timestamp": "{when}", "levelname": "{level}", "data": {{"type": "{kind}", "payload": {payload}}}}}\n'


def _field(text: str) -> str:
    return one_line(text if len(text) <= _MAX_FIELD else f"{text[:_MAX_FIELD]}...")


def _dump(value: Any) -> str:
    """``value`` without secrets as JSON text, bounded; all but ASCII escaped, so that it cannot start a line."""
    if value == {}:  # most requests
        return "{}"
    try:
        redaction = SecretMasker(MAX_LOGGED)
        shown = redaction.apply(value)
        if not redaction.cut and _small(shown):
            return json.dumps(shown)
        return json.dumps({"truncated": json.dumps(shown)[:MAX_LOGGED]})
    except (TypeError, ValueError, RecursionError):  # no JSON value, or too deep
        return '"not printable"'


def _small(value: Any) -> bool:
    """Whether the JSON text of ``value`` is surely no longer than about :data:`MAX_LOGGED` characters."""
    budget, left = MAX_LOGGED, [value]
    while left:
        item = left.pop()
        budget -= 2 + len(item) if isinstance(item, str | list | tuple | Mapping) else 8
        if budget < 0:
            return False
        if isinstance(item, Mapping):
            left.extend(item.keys())
            left.extend(item.values())
        elif isinstance(item, list | tuple):
            left.extend(item)
    return True
