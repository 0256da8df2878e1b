"""The parser of ruleset files (ruleset.md 2): nearly XML; public files depend on each difference.

Texts are bytes and stay as typed: no entities, no normalisation.
"""

import re
from dataclasses import dataclass, field

MAX_TEXT = 20480
"""Bytes of one name, content or attribute value, variables replaced."""
MAX_DEPTH = 1024
MAX_VARIABLE_NAME = 255
MAX_INSERTED = 16 << 20
"""Bytes that the variables of one file insert."""

_SPACES = re.compile(rb"[ \t\n\r\v\f]*")
_NAME = re.compile(rb"(?:[^> \t\n\r\v\f/]|/(?!>))+")
_COMMENT_END = re.compile(rb"-->|!>")
_ATTRIBUTE = re.compile(rb"([^=<>/ \t\n\r\v\f]+)=[ \t\n\r\v\f]*")
_LEAF = re.compile(
    rb"""[ \t\n\r\v\f]*+<([A-Za-z][\w.-]*+)((?:[ \t\n\r\v\f]++[A-Za-z][\w.-]*+=(?:"[^">]*+"|'[^'>]*+'))*+)"""
    rb"""[ \t\n\r\v\f]*+(?:/>|>([^<]*+)(?<!\\)</\1>)"""
)
"""A whole element without children, in its usual form."""
_LEAF_ATTRIBUTE = re.compile(rb"""([\w.-]+)=(?:"([^"]*)"|'([^']*)')""")
_VARIABLE_ENDS = b"$.|, "


class XmlError(ValueError):
    """The text is not well-formed; ``line`` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        self.line, self.problem = line, problem
        super().__init__(f"line {line}: {problem}")


class VariableError(XmlError):
    """A variable is defined wrongly, or not at all."""


@dataclass(slots=True)
class Element:
    """An element. ``content`` is the text after its last child."""

    name: str
    line: int
    attributes: dict[str, bytes] = field(default_factory=dict)
    content: bytes = b""
    children: list["Element"] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The name in lower case, as most look-ups compare it."""
        return self.name.lower()

    @property
    def text(self) -> str:
        """The content as text for messages."""
        return self.content.decode("utf-8", "replace")


def parse(data: bytes) -> list[Element]:
    """The root elements with variables replaced, ``var`` elements left out. Raises XmlError, VariableError."""
    return _expanded(_Reader(data).read())


def parse_payload(data: bytes) -> list[Element]:
    """The root elements of XML within an event: long texts are cut instead of refused, and nothing is expanded.

    Raises XmlError.
    """
    return _Reader(data, cut=True).read()


def parse_beginning(data: bytes) -> tuple[list[Element], bool]:
    """:func:`parse_payload` up to the first error, and whether there is no error."""
    reader = _Reader(data, cut=True)
    try:
        return reader.read(), True
    except XmlError:
        return reader.roots, False


class _Reader:
    """One pass over the text. A stack instead of recursion: files may nest a thousand levels."""

    def __init__(self, data: bytes, *, cut: bool = False) -> None:
        self._data = data
        self._cut = cut
        self._at = 0
        self._line = 1
        self._counted = 0
        self.roots: list[Element] = []
        """Elements read so far."""

    def read(self) -> list[Element]:
        roots = self.roots
        opened: list[Element] = []
        while True:
            self._leaves(opened)
            text, what = self._content(inside=bool(opened))
            if opened:
                opened[-1].content += text
                if len(opened[-1].content) > MAX_TEXT and self._cut:
                    opened[-1].content = opened[-1].content[:MAX_TEXT]
                elif len(opened[-1].content) > MAX_TEXT:
                    raise self._error(f"the content of {opened[-1].name!r} is longer than {MAX_TEXT} bytes")
            if what == "end":
                if opened:
                    raise self._error(f"element {opened[-1].name!r} of line {opened[-1].line} is not closed")
                return roots
            if what == "close":
                self._close(opened)
                continue
            element, closed = self._open()
            (opened[-1].children if opened else roots).append(element)
            if opened:
                opened[-1].content = b""
            if not closed:
                opened.append(element)
                if len(opened) > MAX_DEPTH:
                    raise self._error(f"more than {MAX_DEPTH} levels of elements")

    def _leaves(self, opened: list[Element]) -> None:
        """Read the elements without children that come next, as far as they are in their usual form.

        Most elements are. What is left is read by the other methods, which know every form and every error.
        """
        if len(opened) == MAX_DEPTH:
            return
        siblings = opened[-1].children if opened else self.roots
        while (found := _LEAF.match(self._data, self._at)) and found.end() - self._at <= MAX_TEXT:
            name, written, content = found.groups()
            attributes: dict[str, bytes] = {}
            if written:
                pairs = _LEAF_ATTRIBUTE.findall(written)
                attributes = {key.decode("latin-1"): value or other for key, value, other in pairs}
                if len(attributes) < len(pairs):
                    return
            if opened:
                opened[-1].content = b""
            self._at = found.end(1)
            siblings.append(Element(name.decode("latin-1"), self._line_now(), attributes, content or b""))
            self._at = found.end()

    def _content(self, *, inside: bool) -> tuple[bytes, str]:
        """Text up to the next tag, comments left out, and what comes: ``open``, ``close`` or ``end``."""
        data, start = self._data, self._at
        parts: list[bytes] = []
        while True:
            found = data.find(b"<", self._at)
            if found < 0:
                parts.append(data[start:])
                self._at = len(data)
                return b"".join(parts), "end"
            self._at = found + 1
            if inside and _escaped(data, start, found):
                continue
            parts.append(data[start:found])
            following = data[found + 1 : found + 2]
            if following == b"!":
                self._comment(found)
                start = self._at
                continue
            return b"".join(parts), "close" if following == b"/" else "open"

    def _comment(self, start: int) -> None:
        end = _COMMENT_END.search(self._data, start + 2)
        if end is None:
            raise self._error("a comment is not closed")
        self._at = end.end()

    def _close(self, opened: list[Element]) -> None:
        end = self._data.find(b">", self._at)
        name = self._data[self._at + 1 : end] if end >= 0 else b""
        if not opened or name != opened[-1].name.encode("latin-1"):
            expected = f"the end of {opened[-1].name!r}" if opened else "no end tag"
            raise self._error(f"</{name[:64].decode('latin-1')}> instead of {expected}")
        opened.pop()
        self._at = end + 1

    def _open(self) -> tuple[Element, bool]:
        """The element whose tag begins here, and whether it is closed at once."""
        name = self._name()
        element = Element(name, self._line_now())
        while True:
            spaces = self._spaces()
            byte = self._data[self._at : self._at + 1]
            if byte == b">":
                self._at += 1
                return element, False
            if byte == b"/" and self._data.startswith(b"/>", self._at):
                self._at += 2
                return element, True
            if not byte:
                raise self._error(f"the tag of {name!r} is not closed")
            if not spaces:
                raise self._error(f"unexpected text in the tag of {name!r}: {byte.decode('latin-1')!r}")
            self._attribute(element)

    def _name(self) -> str:
        found = _NAME.match(self._data, self._at)
        name = found[0] if found else b""
        if not name or len(name) > MAX_TEXT:
            raise self._error("a tag without a name" if not name else "a name is too long")
        self._at += len(name)
        return name.decode("latin-1")

    def _attribute(self, element: Element) -> None:
        found = _ATTRIBUTE.match(self._data, self._at)
        if found is None:
            raise self._error(f'an attribute of {element.name!r} is not of the form name="value"')
        key = found[1].decode("latin-1")
        if len(key) > MAX_TEXT:
            raise self._error("a name is too long")
        self._at = found.end()
        quote = self._data[self._at : self._at + 1]
        if quote not in (b'"', b"'"):
            raise self._error(f"the value of attribute {key!r} has no quotes")
        end = self._data.find(quote, self._at + 1)
        value = self._data[self._at + 1 : end] if end >= 0 else b">"
        if b">" in value:
            raise self._error(f"the value of attribute {key!r} is not closed")
        if key in element.attributes:
            raise self._error(f"attribute {key!r} is repeated in {element.name!r}")
        if len(value) > MAX_TEXT and self._cut:
            value = value[:MAX_TEXT]
        elif len(value) > MAX_TEXT:
            raise self._error(f"the value of attribute {key!r} is longer than {MAX_TEXT} bytes")
        element.attributes[key] = value
        self._at = end + 1

    def _spaces(self) -> int:
        found = _SPACES.match(self._data, self._at)
        count = len(found[0]) if found else 0
        self._at += count
        return count

    def _line_now(self) -> int:
        self._line += self._data.count(b"\n", self._counted, self._at)
        self._counted = max(self._counted, self._at)
        return self._line

    def _error(self, problem: str) -> XmlError:
        return XmlError(self._line_now(), problem)


def _escaped(data: bytes, start: int, at: int) -> bool:
    """Whether an odd number of backslashes precedes ``at``."""
    count = 0
    while at - count - 1 >= start and data[at - count - 1] == ord("\\"):
        count += 1
    return count % 2 == 1


def _expanded(elements: list[Element]) -> list[Element]:
    """The elements with variables replaced; a definition at any level applies to the rest of the file."""
    variables = _Variables()
    kept: list[Element] = []
    # A stack of (elements, next index, owner): no recursion, as above.
    pending: list[tuple[list[Element], int, Element | None]] = [(elements, 0, None)]
    children: list[list[Element]] = [kept]
    while pending:
        level, index, owner = pending.pop()
        if index == len(level):
            done = children.pop()
            if owner is not None:
                owner.children = done
            continue
        pending.append((level, index + 1, owner))
        element = level[index]
        if element.key == "var":
            variables.define(element)
            continue
        variables.replace_in(element)
        children[-1].append(element)
        pending.append((element.children, 0, element))
        children.append([])
    return kept


class _Variables:
    """The variables of one file. What they insert is limited: a few lines could fill any memory."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._inserted = 0

    def define(self, element: Element) -> None:
        if list(element.attributes) != ["name"]:
            raise VariableError(element.line, "a variable has exactly one attribute: name")
        name = element.attributes["name"].decode("latin-1").lower()
        if not name or len(name) > MAX_VARIABLE_NAME:
            raise VariableError(element.line, f"the name of a variable has 1 to {MAX_VARIABLE_NAME} bytes")
        self._values[name] = element.content

    def replace_in(self, element: Element) -> None:
        """Replace each ``$NAME`` of content and attributes; nothing as long as the file has defined no variable."""
        if self._values:
            element.content = self._replaced(element.content, element.line)
            element.attributes = {
                name: self._replaced(value, element.line) for name, value in element.attributes.items()
            }

    def _replaced(self, text: bytes, line: int) -> bytes:
        if len(text) <= 2 or b"$" not in text:
            return text
        parts: list[bytes] = []
        at = 0
        while (found := text.find(b"$", at)) >= 0:
            end = found + 1
            while end < len(text) and text[end] not in _VARIABLE_ENDS:
                end += 1
            name = text[found + 1 : end]
            if not name or name.startswith(b"("):
                parts.append(text[at : found + 1])
                at = found + 1
                continue
            parts += (text[at:found], self._value(name, line))
            at = end
        parts.append(text[at:])
        if sum(map(len, parts)) > MAX_TEXT:
            raise VariableError(line, f"a text with its variables is longer than {MAX_TEXT} bytes")
        return b"".join(parts)

    def _value(self, name: bytes, line: int) -> bytes:
        value = self._values.get(name.decode("latin-1").lower())
        if value is None:
            raise VariableError(line, f"unknown variable {name[:64].decode('latin-1')!r}")
        self._inserted += len(value)
        if self._inserted > MAX_INSERTED:
            raise VariableError(line, f"variables insert more than {MAX_INSERTED} bytes into the file")
        return value
