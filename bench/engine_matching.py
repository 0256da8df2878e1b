"""The floor of the engine: the patterns that a walk tests, in PCRE2 alone, without anything around them.

The walk is the plain one: every root in its order, every child in its order. What it tests on each log is recorded once
and then repeated with compiled patterns, so that an index of the engine can beat the floor.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pcre2  # type: ignore[import-untyped]  # the package has no stubs

from secmon.engine.decoders import decoder_loader
from secmon.engine.engine import Engine
from secmon.engine.input.predecode import Message
from secmon.engine.matching import Expression, Found, compile_expression
from secmon.engine.matching.expression import Kind
from secmon.engine.rules import rule_reader
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import Sources, compile_sources

_CLASSES = {
    "w": r"[\w@-]", "d": r"\d", "s": " ", "t": r"\t", "p": r"""[!"#$%&'()*+,\-.:;<=>?\[\]{|}]""", "W": r"[^\w@-]",
    "D": r"\D", "S": "[^ ]", ".": r"[\s\S]",
}  # fmt: skip
"""The classes of OS_Regex (ruleset.md 3.2)."""

Test = tuple[Kind, bytes, bytes]
"""A pattern and its subject."""


class PlainWalk:
    """A ruleset of which every test is recorded, and no index knows anything."""

    def __init__(self, sources: Sources) -> None:
        self.tests: list[Test] = []
        with _compiling_by(self._recording):
            self.ruleset: Ruleset = compile_sources(sources)

    def _recording(self, kind: Kind, pattern: bytes) -> Expression:
        return _Recording(compile_expression(kind, pattern), (kind, pattern), self.tests)

    def of(self, engine: Engine, message: Message, time: Any) -> list[Test]:
        """The tests of one message. ``engine`` has the ruleset of this walk."""
        self.tests.clear()
        engine.process(message, time, _Untraced())
        return self.tests.copy()


@contextmanager
def _compiling_by(compiler: Callable[[Kind, bytes], Expression]) -> Iterator[None]:
    """Loaders compile patterns with ``compiler``."""
    loaders: tuple[Any, ...] = (decoder_loader, rule_reader)
    for module in loaders:
        module.compile_expression = compiler
    try:
        yield
    finally:
        for module in loaders:
            module.compile_expression = compile_expression


class _Untraced:
    """With a trace, a search uses no index."""

    def trying(self, rule: Rule) -> None: ...
    def matched(self, rule: Rule) -> None: ...
    def descending(self, rule: Rule) -> None: ...


@dataclass(frozen=True)
class _Recording:
    """An expression that records its subjects. Of a literal text nothing is known, as of an unknown pattern."""

    inner: Expression
    name: tuple[Kind, bytes]
    tests: list[Test] = field(compare=False)
    first_bytes: None = None
    literals: None = None

    def test(self, subject: bytes) -> bool:
        self.tests.append((*self.name, subject))
        return self.inner.test(subject)

    def search(self, subject: bytes) -> int | None:
        self.tests.append((*self.name, subject))
        return self.inner.search(subject)

    def capture(self, subject: bytes) -> Found | None:
        self.tests.append((*self.name, subject))
        return self.inner.capture(subject)


def matching_rate(tests: Sequence[Test], logs: int) -> float:
    """Logs a second of processor time when nothing but ``tests``, those of ``logs`` logs, is done."""
    calls = [(_compiled(kind, pattern), subject) for kind, pattern, subject in tests]
    started = time.process_time()
    for search, subject in calls:
        search(subject)
    return logs / (time.process_time() - started)


@cache
def _compiled(kind: Kind, pattern: bytes) -> Any:
    """The search of the same pattern in PCRE2: equal enough to cost the same."""
    text = pattern.decode("latin-1")
    if kind == "osregex":
        text = "(?i)" + _translated(text)
    elif kind != "pcre2":
        text = "(?i)" + "|".join(_literal(one) for one in text.removeprefix("!").split("|"))
    return pcre2.compile(text.encode("latin-1")).search


def _translated(pattern: str) -> str:
    made, at = "", 0
    while at < len(pattern):
        one = pattern[at]
        if one == "\\":
            at += 1
            made += _CLASSES.get(pattern[at], "\\" + pattern[at])
            if pattern[at + 1 : at + 2] in ("+", "*"):
                at += 1
                made += pattern[at] + "?"
        else:
            made += one if one in "()|^$" or one.isalnum() else "\\" + one
        at += 1
    return made


def _literal(text: str) -> str:
    begin, end = text.startswith("^"), text.endswith("$")
    inner = "".join(one if one.isalnum() else f"\\x{ord(one):02x}" for one in text[begin : len(text) - end])
    return "^" * begin + inner + "$" * end
