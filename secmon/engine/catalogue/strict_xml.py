"""Ruleset files as strict XML: the check of uploads, and the conversion to JSON (analysis-api.md 2.6, 5.3).

Stricter than the engine, which reads more than XML, with two exceptions: there may be several root elements, and ``&``
is a plain character, so that texts stay as typed.
"""

import re
from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

MAX_DEPTH = 64
"""Elements within each other; JSON objects go as deep."""

_ROOT = "ruleset"
_SPECIAL = re.compile(
    # What is not closed runs to the end, for expat to refuse: trying again at each start would take quadratic time.
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--(?P<comment>.*?)(?:(?P<closed>-->)|\Z)|(?P<amp>&)",
    re.DOTALL,
)
_HYPHENS = re.compile(rb"-(?=-|\Z)|(?<=-)-")


class MalformedXml(ValueError):
    """Why a text is refused, with its line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


def read_object(data: bytes) -> dict[str, Any]:
    """The roots as JSON: attributes as ``@name``, text beside them as ``#text``, repeated elements as arrays.

    Raises MalformedXml.
    """
    return _convert(data, _Builder())


def check(data: bytes) -> None:
    """Raises MalformedXml."""
    _convert(data, _Builder())


def _convert(data: bytes, builder: "_Builder") -> dict[str, Any]:
    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        builder.parser.Parse(b"<%b>%b</%b>" % (_ROOT.encode(), _SPECIAL.sub(_harmless, text), _ROOT.encode()), True)
    except expat.ExpatError as error:
        raise MalformedXml(error.lineno, expat.ErrorString(error.code)) from None
    return builder.roots


def _harmless(match: re.Match[bytes]) -> bytes:
    if match["amp"] is not None:
        return b"&amp;"
    if match["closed"] is not None:  # two hyphens, or one before the end, are not allowed in a comment
        return b"<!--%b-->" % _HYPHENS.sub(b".", match["comment"])
    return match[0]


class _Builder:
    """Collects objects from expat's calls."""

    def __init__(self) -> None:
        self.roots: dict[str, Any] = {}
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._open) > MAX_DEPTH:
            raise MalformedXml(self.parser.CurrentLineNumber, f"more than {MAX_DEPTH} levels of elements")
        self._open.append((tag, {f"@{name}": value for name, value in attributes.items()}, []))

    def _text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def _end(self, tag: str) -> None:
        _, members, texts = self._open.pop()
        if not self._open:
            self.roots = members
            return
        text = "".join(texts).strip() or None
        value: Any = text
        if members:
            value = members if text is None else {**members, "#text": text}
        _add(self._open[-1][1], tag, value)


def _add(members: dict[str, Any], name: str, value: Any) -> None:
    """Repeated names become arrays."""
    if name not in members:
        members[name] = value
    elif isinstance(members[name], list):
        members[name].append(value)
    else:
        members[name] = [members[name], value]
