"""Tolerant reader of the XML configuration files (manager.md 2.1), with line numbers.

Files written for the C parser of older managers are not always XML. The text is first made so by one pass of a
scanner that keeps every line in place, then parsed by expat below an artificial root. Inside an element XML allows no
document type, so entities cannot be declared: there is nothing to expand and nothing to fetch.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from secmon.common.errors import ConfigError, Fault
from secmon.common.file_io import read_regular

MAX_DEPTH = 64
MAX_BYTES = 1 << 20
"""Of one file, which a request may make a node parse several times: half a second each."""

_ROOT = "configuration"
_SCANNER = re.compile(
    # What is not closed runs to the end, for expat to refuse: trying again at each start would take quadratic time.
    r"(?P<comment><!--(?P<inside>.*?)(?:(?P<closed>-->)|\Z))"
    r"|(?P<cdata><!\[CDATA\[.*?(?:\]\]>|\Z))"
    r"|(?P<declaration><\?xml\s.*?(?:\?>|\Z))"
    r"|(?P<end>\]\]>)"
    r"|(?P<amp>&(?!(?:amp|apos|quot);))"
    r"|(?P<less><(?!/?[A-Za-z_]|!--|!\[CDATA\[|!DOCTYPE|\?[A-Za-z_]))",
    re.DOTALL,
)
_REFERENCE = re.compile(r"&#(?:x(?P<hex>[0-9a-fA-F]+)|(?P<decimal>[0-9]+));")
_CHARACTERS = (0x9, 0x9), (0xA, 0xA), (0xD, 0xD), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF)
"""What a reference may name (XML 1.0, production 2)."""
_HYPHENS = re.compile(r"-(?=-|\Z)|(?<=-)-")


class XmlError(ConfigError):
    """The text is not well formed; ``line`` counts from 1."""

    def __init__(self, file: str, line: int, problem: str, code: int) -> None:
        self.line = line
        super().__init__(file, f"line {line}", Fault(problem), "well-formed XML", code=code)


@dataclass(frozen=True, slots=True)
class Element:
    """An element; ``content`` holds texts and elements in document order, comments left out."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    content: list["str | Element"] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The tag in lower case, which is what names are compared in."""
        return self.tag.lower()

    @property
    def children(self) -> Iterator["Element"]:
        return (each for each in self.content if isinstance(each, Element))

    @property
    def has_children(self) -> bool:
        return any(isinstance(each, Element) for each in self.content)

    @property
    def text(self) -> str | None:
        """Text before the first child; None when there is none."""
        first = self.content[0] if self.content else None
        return first if isinstance(first, str) else None

    @property
    def inner_xml(self) -> str:
        """Texts and children as XML, where ``<`` and ``>`` of texts are escaped (once: ``&lt;`` stays)."""
        return "".join(_markup(each) for each in self.content)


def _markup(part: str | Element) -> str:
    if isinstance(part, str):
        return part.replace("<", "&lt;").replace(">", "&gt;")
    attributes = "".join(f' {name}="{escape(value, {chr(34): "&quot;"})}"' for name, value in part.attributes.items())
    return f"<{part.tag}{attributes}>{part.inner_xml}</{part.tag}>"


def read_xml(path: Path, *, code: int = 1101) -> Element:
    """Parse a file. Raises ConfigError ``code`` when it cannot be read or is not well formed (XmlError)."""
    try:
        data = read_regular(path, follow=True)
    except OSError as error:
        raise ConfigError(str(path), "file", Fault(error.strerror), "a readable file", code=code) from error
    return parse_xml(data, str(path), code=code)


def parse_xml(data: bytes | str, file: str, *, code: int = 1113) -> Element:
    """The artificial root element; its children are the roots of the file.

    ``file`` names the text in errors. Raises XmlError ``code`` for text that is not UTF-8, not well formed, nested
    deeper than ``MAX_DEPTH`` or larger than ``MAX_BYTES``.
    """
    if len(data) > MAX_BYTES:
        raise XmlError(file, 1, f"{len(data)} bytes, {MAX_BYTES} are allowed", code)
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
        prepared = f"<{_ROOT}>{_SCANNER.sub(_repair, text)}</{_ROOT}>".encode()
    except UnicodeError as error:
        raise XmlError(file, 1, f"not UTF-8 text ({error})", code) from error
    builder = _Builder(file, code)
    try:
        builder.parser.Parse(prepared, True)
    except expat.ExpatError as error:
        raise XmlError(file, error.lineno, expat.ErrorString(error.code), code) from error
    return builder.root


def refuse_forbidden_references(text: str, file: str, *, code: int = 1113) -> None:
    """Raises XmlError ``code`` for a reference, such as ``&#0;``, to a character that XML does not have.

    For files that others read too: :func:`parse_xml` takes all references for plain text.
    """
    for match in _SCANNER.finditer(text):
        reference = _REFERENCE.match(text, match.start()) if match["amp"] else None
        if reference is not None and not _is_character(reference):
            line = text.count("\n", 0, match.start()) + 1
            raise XmlError(file, line, f"reference to invalid character number {reference[0][:20]}", code)


def _is_character(reference: re.Match[str]) -> bool:
    digits = (reference["hex"] or reference["decimal"]).lstrip("0")
    if len(digits) > 7:  # beyond all characters, and perhaps too long to convert
        return False
    number = int(digits or "0", 16 if reference["hex"] else 10)
    return any(first <= number <= last for first, last in _CHARACTERS)


def _repair(match: re.Match[str]) -> str:
    if match["closed"] is not None:
        # Two hyphens, or one before the end, are not allowed in a comment.
        return f"<!--{_HYPHENS.sub('.', match['inside'])}-->"
    if match["declaration"] is not None and match[0].endswith("?>"):
        return "\n" * match[0].count("\n")
    if match["end"] is not None:
        return "]]&gt;"
    if match["amp"] is not None:
        return "&amp;"
    if match["less"] is not None:
        return "&lt;"
    return match[0]


class _Builder:
    """Collects elements from expat's calls."""

    def __init__(self, file: str, code: int) -> None:
        self.root = Element(_ROOT, {}, 1)
        self._file, self._code = file, code
        self._open: list[Element] = []
        self._texts: list[str] = []  # comments cut a text into pieces
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._texts.append

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open:
            self._open.append(self.root)
            return
        self._flush()
        line = self.parser.CurrentLineNumber
        if len(self._open) > MAX_DEPTH:
            raise XmlError(self._file, line, f"more than {MAX_DEPTH} levels of elements", self._code)
        element = Element(tag, attributes, line)
        self._open[-1].content.append(element)
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._flush()
        self._open.pop()

    def _flush(self) -> None:
        if self._texts:
            self._open[-1].content.append("".join(self._texts))
            self._texts.clear()
