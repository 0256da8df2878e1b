"""Sessions of logtest: each has its own engine, on the ruleset of its start (analysis-api.md 6)."""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from secmon.common.clock import Clock, iso_micro
from secmon.common.errors import ConfigError, os_text
from secmon.config.main import MainConfig
from secmon.engine.decoders.json_text import to_bytes
from secmon.engine.engine import Engine, Verdict
from secmon.engine.input.predecode import Message
from secmon.engine.matching import MatchLimit
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Object
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.live_ruleset import Compiled

TOKEN_LENGTH = 8
MAX_SESSIONS, MAX_SECONDS, MAX_THREADS = 1000, 31_536_000, 128

Latest = Callable[[Callable[[str], Compiled | None]], Compiled]
"""As ``LiveRuleset.latest``."""


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The ``rule_test`` section. ``notes``: values that were too large, for the log."""

    enabled: bool = True
    threads: int = 1
    max_sessions: int = 64
    timeout_seconds: int = 900
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: MainConfig, *, cores: int) -> "SessionSettings":
        """Values above the maximum are lowered to it."""
        threads = (
            cores
            if config.text("rule_test", "threads") == "auto"
            else config.integer("rule_test", "threads", default=1)
        )
        wanted = {
            "threads": (7000, max(1, threads), MAX_THREADS),
            "max_sessions": (7001, max(1, config.integer("rule_test", "max_sessions", default=64)), MAX_SESSIONS),
            "session_timeout": (
                7002,
                max(1, config.seconds("rule_test", "session_timeout", default=900)),
                MAX_SECONDS,
            ),
        }
        notes = [
            f"({number}): rule_test.{name} is {value}; the maximum {most} is used"
            for name, (number, value, most) in wanted.items()
            if value > most
        ]
        return cls(
            enabled=config.flag("rule_test", "enabled", default=True),
            threads=min(wanted["threads"][1], MAX_THREADS),
            max_sessions=min(wanted["max_sessions"][1], MAX_SESSIONS),
            timeout_seconds=min(wanted["session_timeout"][1], MAX_SECONDS),
            notes=tuple(notes),
        )


@dataclass(slots=True, eq=False)
class Session:
    """One engine with its own state. ``used``: monotonic seconds of the last request."""

    token: str
    compiled: Compiled
    engine: Engine
    documents: Documents
    used: float
    offset: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class BadToken(Exception):
    """A text that cannot be a token."""


@dataclass(slots=True)
class Answer:
    """The answer to a client. ``data`` is the object of analysis-api.md 6.1."""

    messages: list[str] = field(default_factory=list)
    codemsg: int = 0
    data: Object = field(default_factory=dict)

    def add_message(self, severity: str, number: int, text: str) -> None:
        self.messages.append(f"{severity}: ({number}): {text}")
        self.codemsg = min(self.codemsg, -1) if severity == "ERROR" else (self.codemsg or int(severity == "WARNING"))

    def object(self) -> Object:
        made: Object = {"messages": self.messages} if self.messages else {}
        return made | self.data | {"codemsg": self.codemsg}


class Sessions:
    """All sessions of a node. Any method may be called from any thread; :meth:`process` may compile and block."""

    def __init__(
        self, settings: SessionSettings, clock: Clock, latest: Latest, documents: Callable[[], Documents], diffs: Path,
        *, host: bytes,
    ) -> None:  # fmt: skip
        """``documents``: makes the document builder of a session; ``diffs``: folder of ``check_diff``."""
        self.settings = settings
        self._clock = clock
        self._latest = latest
        self._documents = documents
        self._diffs = diffs
        self._host = host
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._reap_at = clock.monotonic() + settings.timeout_seconds
        self.evicted = 0
        """Sessions that were ended to make room for others."""

    def __len__(self) -> int:
        return len(self._sessions)

    def process(self, event: str, location: str, token: str | None, *, debug: bool = False) -> Answer:
        """Analyse one log, in the session ``token`` or in a new one."""
        answer = Answer()
        session = self._find(token, answer)
        if session is None:
            session = self._start(answer)
            if session is None:
                return answer
        with session.lock:
            session.used = self._clock.monotonic()
            answer.data["token"] = session.token
            self._analyse(session, event, location, answer, debug=debug)
            session.used = self._clock.monotonic()
        return answer

    def remove(self, token: str) -> Answer:
        """End a session. Raises BadToken."""
        if len(token) != TOKEN_LENGTH:
            raise BadToken
        answer = Answer()
        with self._lock:
            session = self._sessions.get(token)
            if session is None:
                answer.add_message("ERROR", 7004, f"No session with token '{token}'")
            elif session.lock.locked():
                answer.add_message("ERROR", 7318, f"Session '{token}' is busy, it was not removed")
            else:
                del self._sessions[token]
                answer.add_message("INFO", 7206, f"The session '{token}' is closed")
        return answer

    def reap(self) -> None:
        """End idle sessions. Runs once per timeout, so an idle session lives up to twice the timeout."""
        now, idle = self._clock.monotonic(), self.settings.timeout_seconds
        if now < self._reap_at:
            return
        self._reap_at = now + idle
        with self._lock:
            for session in list(self._sessions.values()):
                if now - session.used >= idle and not session.lock.locked():
                    del self._sessions[session.token]

    def _find(self, token: str | None, answer: Answer) -> Session | None:
        if token is None:
            return None
        if len(token) != TOKEN_LENGTH:
            answer.add_message("WARNING", 7309, f"'{token}' is no token")
            return None
        with self._lock:
            session = self._sessions.get(token)
        if session is None:
            answer.add_message("WARNING", 7003, f"The token '{token}' is unknown or has expired")
        return session

    def _start(self, answer: Answer) -> Session | None:
        """A new session; None when the ruleset does not load."""
        try:
            with self._compiling:  # the second of two that start together finds the ruleset that the first has compiled
                compiled = self._latest(self._known)
                engine = Engine(compiled.ruleset, State.private(self._diffs), host=self._host, session=True)
                session = Session(self._token(), compiled, engine, self._documents(), self._clock.monotonic())
                with self._lock:
                    self._make_room()
                    self._sessions[session.token] = session
        except RulesetError as error:
            answer.messages.append(str(error.message))
        except (ConfigError, OSError) as error:
            answer.add_message("ERROR", 1220, os_text(error) if isinstance(error, OSError) else error.message)
        else:
            for message in compiled.ruleset.messages:
                answer.add_message("WARNING", message.number, str(message).split("): ", 1)[1])
            answer.add_message("INFO", 7202, f"Session initialized with token '{session.token}'")
            return session
        answer.add_message("ERROR", 7311, "No session: the ruleset does not load")
        return None

    def _known(self, digest: str) -> Compiled | None:
        with self._lock:
            return next((one.compiled for one in self._sessions.values() if one.compiled.digest == digest), None)

    def _token(self) -> str:
        while (token := secrets.token_hex(TOKEN_LENGTH // 2)) in self._sessions:
            pass
        return token

    def _make_room(self) -> None:
        while len(self._sessions) >= self.settings.max_sessions:
            oldest = min(self._sessions.values(), key=lambda session: session.used)
            del self._sessions[oldest.token]
            self.evicted += 1

    def _analyse(self, session: Session, event: str, location: str, answer: Answer, *, debug: bool) -> None:
        log = to_bytes(event)
        now = self._clock.now()
        trace = Trace() if debug else None
        try:
            message = Message("1", to_bytes(location), log)
            verdict = session.engine.process(message, now.astimezone(), trace)
        except OSError as error:
            answer.add_message("ERROR", 7312, f"The event cannot be processed: {os_text(error)}")
            return
        except MatchLimit as error:
            answer.add_message("ERROR", 7312, f"The event cannot be processed: {error}")
            return
        number = f"{int(now.timestamp())}.{session.offset}"
        session.offset += len(log)
        answer.data["output"] = shown(session.documents, verdict, number, now)
        verdicts = (verdict, *verdict.beside)
        if verdict.beside:
            answer.data["side_alerts"] = [shown(session.documents, one, number, now) for one in verdict.beside]
        answer.data["alert"] = any(_alerts(session, one, newest=len(verdicts)) for one in verdicts)
        if trace is not None:
            answer.data["rules_debug"] = trace.lines


def shown(documents: Documents, verdict: Verdict, number: str, now: datetime) -> Object:
    """The object of an event, its time in UTC, its level always there."""
    made = documents.of(verdict, number)
    made["timestamp"] = iso_micro(now)
    rule: Mapping[str, Any] | None = made.get("rule")
    if rule is not None and "level" not in rule:
        made["rule"] = {"level": 0, **rule}
    return made


def _alerts(session: Session, verdict: Verdict, *, newest: int) -> bool:
    """Whether the event is one of the ``newest`` that were recorded, and the level of its rule one that is written."""
    rule = verdict.rule
    recorded = any(one is verdict.event for one in islice(reversed(session.engine.state.recent), newest))
    return rule is not None and recorded and rule.level >= session.compiled.ruleset.settings.alert_level


class Trace:
    """A :class:`secmon.engine.rules.rule_search.Trace` as lines of text."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trying(self, rule: Rule) -> None:
        self.lines.append(f"Trying rule: {rule.id} - {rule.description.decode('utf-8', 'backslashreplace')}")

    def matched(self, rule: Rule) -> None:
        self.lines.append(f"*Rule {rule.id} matched")

    def descending(self, rule: Rule) -> None:
        self.lines.append("*Trying child rules")
