"""Regular expressions of authorization-context rules: ``r'<pattern>'``, matched in linear time.

The engine is RE2: its time grows with pattern length times text length whatever the pattern, and its memory is capped,
so no context can stall a node. Engines that backtrack would need a time limit instead, and then the load of the host
would decide on roles.

Look-around, back references, conditional and possessive constructs are not supported. A rule that uses them is
invalid and never true (:class:`UnsupportedPattern`). ``\\d``, ``\\w``, ``\\s`` and ``\\b`` know ASCII only, and
``$`` means the very end of the text. Otherwise the dialect is Python's.
"""

import re
from typing import Any, Protocol

import re2  # type: ignore[import-untyped]  # the library ships no types; this module is the only one that imports it

MAX_PATTERN = 1_000
"""Characters of a pattern; a longer one makes its rule invalid."""

MAX_MEMORY = 1 << 20
"""Bytes that a compiled pattern and its caches may take."""

WORK_PER_STEP = 1_000
"""Instructions times characters that count as one step of an evaluation: about a microsecond at worst."""

# Written as Python has it, under another name in the engine.
_ESCAPE = re.compile(r"\\(?:(Z)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
# Constructs that Python has and the engine has not. Looked for only in patterns that the engine refuses.
_PYTHON_ONLY = re.compile(r"\(\?(?:[=!>(#auLx]|<[=!]|P[=>])|\\[1-9N]|[*+?}]\+|\{[0-9]*,?[0-9]{2,}\}")


class UnsupportedPattern(ValueError):
    """A pattern that may mean something elsewhere but cannot be evaluated here within bounds."""


class _Engine(Protocol):
    """What we use of a compiled expression."""

    @property
    def programsize(self) -> int: ...

    def match(self, text: bytes) -> object | None: ...


class Pattern:
    """A compiled pattern; matches from the start of a text, not necessarily to its end."""

    __slots__ = ("_engine", "size", "source")

    def __init__(self, source: str, engine: _Engine) -> None:
        self.source = source
        self.size = engine.programsize
        self._engine = engine

    def cost(self, text: str) -> int:
        """Steps that :meth:`matches` may take on ``text``."""
        return 1 + len(text) * self.size // WORK_PER_STEP

    def matches(self, text: str) -> bool:
        """False for text that is not Unicode (lone surrogates)."""
        try:
            return self._engine.match(text.encode()) is not None
        except UnicodeEncodeError:
            return False


def parse_pattern(text: str) -> Pattern | None:
    """The pattern that ``text`` writes; None when it is plain text: no ``r'...'``, or no regular expression inside.

    Raises :class:`UnsupportedPattern`.
    """
    if len(text) < 3 or not (text.startswith("r'") and text.endswith("'")):
        return None
    source = text[2:-1]
    if len(source) > MAX_PATTERN:
        raise UnsupportedPattern(f"a pattern is longer than {MAX_PATTERN} characters")
    try:
        return Pattern(source, re2.compile(_ESCAPE.sub(_respell, source).encode(), _options()))
    except UnicodeEncodeError:
        return None
    except re2.error as error:
        if _PYTHON_ONLY.search(source) or b"too large" in error.args[0]:
            raise UnsupportedPattern(f"{source!r} needs a construct that has no bounded evaluation") from None
        return None


def _respell(escape: re.Match[str]) -> str:
    end, *codes = escape.groups()
    if end:
        return r"\z"
    code = next(filter(None, codes), None)
    return f"\\x{{{code}}}" if code else escape[0]


def _options() -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.never_capture = True
    options.log_errors = False
    return options
