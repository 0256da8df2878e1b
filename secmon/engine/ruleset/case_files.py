"""Test cases of a ruleset, in ini files (ruleset.md 12).

A file holds sections::

    [a failed login]
    log 1 pass = Nov 14 22:13:20 hq sshd[7]: Failed password for ana from 192.0.2.1 port 2222 ssh2
    log 2 fail = Nov 14 22:13:20 hq sshd[7]: Accepted password for ana from 192.0.2.1 port 2222 ssh2
    rule = 210010
    alert = 5
    decoder = sshd

``pass``: the last event of these logs has this rule, level and decoder; ``fail``: it differs from them. A key that is
repeated feeds one session in order. An empty expectation means "none" and is compared like any other. Three keys are
ours: ``field NAME = VALUE`` asks for a field of the last event of each ``pass``; ``at = 2024-01-06T03:00`` says when
the logs are processed (otherwise at noon of a Tuesday), in UTC; ``type = f`` feeds them as events that agents read
from Windows' event channels, ``{"Message": ..., "Event": "<Event>..."}`` (ruleset.md 4.1, 5.9). A ``type`` can also be
the name of an internal decoder, such as ``sca``: then each log is JSON with the fields of an event that a scan has led
to; its members ``log`` and ``first_seen``, if any, are the text of the event and whether it is new (ruleset.md 5.8).
"""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.decoders.json_fields import flatten
from secmon.engine.decoders.json_text import read_object
from secmon.engine.engine import EVENT_CHANNEL, Engine, Verdict
from secmon.engine.event import STATIC, Event
from secmon.engine.input.decoded_events import decoded_event
from secmon.engine.input.predecode import Message
from secmon.engine.matching import MatchLimit
from secmon.engine.memory.state import State
from secmon.engine.rules.rule_search import Trace
from secmon.engine.ruleset.compiled import Ruleset
from secmon.inventory.decoded_event import DecodedEvent

NOON = datetime(2023, 11, 14, 12, tzinfo=UTC)
LOCATION = "stdin"
LOG_LINE = "1"
_LOG = re.compile(r"log (\S+) (pass|fail)")
_FIELD = re.compile(r"field (\S+)")


class CaseError(ValueError):
    """An invalid line of a case file. Line 0: the whole file."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file, self.line, self.problem = file, line, problem


class RuleMatch(NamedTuple):
    """Rule id, level and name of the decoder; empty for none."""

    rule: str = ""
    alert: str = ""
    decoder: str = ""

    def __str__(self) -> str:
        return f"rule {self.rule or 'none'}, level {self.alert or 'none'}, decoder {self.decoder or 'none'}"


NONE = RuleMatch()


@dataclass(slots=True)
class Case:
    """The logs of one key. ``line``: the first line of the key."""

    file: str
    line: int
    section: str
    key: str
    passes: bool
    logs: list[bytes]
    expected: RuleMatch = NONE
    fields: dict[str, bytes] = field(default_factory=dict)
    at: datetime = NOON
    queue: str = LOG_LINE
    """Type of the messages."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case. ``problem`` is empty when it is as expected; ``rules``: those of each event.

    ``found``: the match that was expected if the event or one of its side trees has it, otherwise that of the event.
    """

    case: Case
    found: RuleMatch
    rules: tuple[int | None, ...]
    problem: str = ""

    @property
    def right(self) -> bool:
        return not self.problem


def read_file(path: Path, shown: str | None = None, mistakes: list[CaseError] | None = None) -> list[Case]:
    """The cases of a file, which errors call ``shown``. ``mistakes``: as for :func:`read_cases`. Raises CaseError."""
    found: list[CaseError] = []
    cases: list[Case] = []
    name = shown or str(path)
    try:
        cases = read_cases(path.read_bytes().decode("utf-8", "surrogateescape"), name, found)
    except OSError as error:
        found.append(CaseError(name, 0, f"the file cannot be read: {error.strerror}"))
    return _with_mistakes(cases, found, mistakes)


def read_cases(text: str, file: str, mistakes: list[CaseError] | None = None) -> list[Case]:
    """The cases of a text in the order of their keys.

    A line that cannot be read, and a section that is not complete, are left out and added to ``mistakes``. Without such
    a list the first of them is raised as CaseError.
    """
    found: list[CaseError] = []
    cases: list[Case] = []
    section: _Section | None = None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip() or line.lstrip().startswith((";", "#")):
            continue
        try:
            if line.startswith("["):
                complete, section = section, _Section(file, number, line.strip()[1:-1])
                cases += complete.close() if complete else []
            elif section is not None:
                section.take(number, line)
            elif not found:  # one word about all that comes before the first section
                raise CaseError(file, number, "the first line must name a section, such as [a failed login]")
        except CaseError as error:
            found.append(error)
    try:
        cases += section.close() if section else []
    except CaseError as error:
        found.append(error)
    return _with_mistakes(cases, found, mistakes)


def _with_mistakes(cases: list[Case], found: list[CaseError], mistakes: list[CaseError] | None) -> list[Case]:
    if mistakes is not None:
        mistakes += found
    elif found:
        raise found[0]
    return cases


class _Section:
    """A section while it is read."""

    def __init__(self, file: str, line: int, name: str) -> None:
        self._file, self._line, self._name = file, line, name
        self._cases: dict[str, Case] = {}
        self._values: dict[str, str] = {}
        self._fields: dict[str, bytes] = {}
        self._at = NOON
        self._queue = LOG_LINE

    def take(self, number: int, line: str) -> None:
        key, equals, value = line.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise CaseError(self._file, number, f"no '=' in {line!r}")
        if found := _LOG.fullmatch(key):
            case = Case(self._file, number, self._name, key, found[2] == "pass", [])
            self._cases.setdefault(key, case).logs.append(value.encode("utf-8", "surrogateescape"))
        elif found := _FIELD.fullmatch(key):
            self._fields[found[1]] = value.encode("utf-8", "surrogateescape")
        elif key in RuleMatch._fields:
            self._values[key] = value
        elif key == "at":
            self._at = self._moment(number, value)
        elif key == "type" and value in (LOG_LINE, EVENT_CHANNEL, *INTERNAL):
            self._queue = value
        else:
            known = "log N pass, log N fail, rule, alert, decoder, field NAME, at, type (1, f, internal decoder)"
            raise CaseError(self._file, number, f"unknown key {key!r}, or its value; known: {known}")

    def _moment(self, number: int, value: str) -> datetime:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise CaseError(self._file, number, f"{value!r} is not a time such as 2024-01-06T03:00") from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def close(self) -> list[Case]:
        if not self._cases:
            raise CaseError(self._file, self._line, f"section {self._name!r} has no logs")
        missing = [name for name in RuleMatch._fields if name not in self._values]
        if missing:
            raise CaseError(self._file, self._line, f"section {self._name!r} does not say {' and '.join(missing)}")
        if self._queue in INTERNAL:
            self._check_json()
        for case in self._cases.values():
            case.expected = RuleMatch(**self._values)
            case.fields, case.at, case.queue = self._fields, self._at, self._queue
        return list(self._cases.values())

    def _check_json(self) -> None:
        for case in self._cases.values():
            for log in case.logs:
                if read_object(log) is None:
                    raise CaseError(self._file, case.line, f"logs of type {self._queue} are JSON objects")


def find_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Files as they are, and the ``*.ini`` of folders and all below them, in order of names."""
    for path in paths:
        yield from sorted(path.rglob("*.ini")) if path.is_dir() else (path,)


def run_case(ruleset: Ruleset, case: Case, trace: Trace | None = None) -> Result:
    """Feed the logs of a case to a fresh session and compare."""
    with tempfile.TemporaryDirectory(prefix="secmon-case-") as folder:
        # A session treats every message as a log line.
        session = case.queue != EVENT_CHANNEL
        engine = Engine(ruleset, State.private(Path(folder)), host=b"host", session=session)
        try:
            verdicts = [_process(engine, case, log, trace) for log in case.logs]
        except MatchLimit as error:
            return Result(case, NONE, (), str(error))
    last = verdicts[-1]
    found = [rule_match_of(one) for one in (last, *last.beside)]
    rules = tuple(one.rule.id if one.rule else None for each in verdicts for one in (each, *each.beside))
    shown = case.expected if case.expected in found else found[0]
    return Result(case, shown, rules, _problem(case, shown, last.event))


def _process(engine: Engine, case: Case, log: bytes, trace: Trace | None) -> Verdict:
    if case.queue not in INTERNAL:
        return engine.process(Message(case.queue, LOCATION.encode(), log), case.at, trace)
    fields = dict(read_object(log) or ())
    found = DecodedEvent(
        agent=0,
        name="host",
        location=LOCATION,
        decoder=case.queue,
        fields=[],
        log=str(fields.pop("log", "")),
        first_seen=bool(fields.pop("first_seen", False)),
    )
    decoder = engine.ruleset.decoders.internal[case.queue]
    event = decoded_event(found, decoder, case.at)
    flatten(event, fields, decoder)
    return engine.evaluate(event, trace)


def rule_match_of(verdict: Verdict) -> RuleMatch:
    """The rule, level and decoder of a verdict."""
    decoder = verdict.event.decoder.name if verdict.event.decoder else ""
    return (
        RuleMatch(str(verdict.rule.id), str(verdict.rule.level), decoder)
        if verdict.rule
        else RuleMatch(decoder=decoder)
    )


def _problem(case: Case, found: RuleMatch, event: Event) -> str:
    if case.passes is not (found == case.expected):
        return f"expected {'' if case.passes else 'anything but '}{case.expected}; found {found}"
    if not case.passes:
        return ""
    for name, wanted in case.fields.items():
        value = event.static.get(name) if name in STATIC else event.dynamic_value(name.lower())
        if value != wanted:
            shown = "nothing" if value is None else repr(value.decode("utf-8", "replace"))
            return f"field {name}: expected {wanted.decode('utf-8', 'replace')!r}; found {shown}"
    return ""
