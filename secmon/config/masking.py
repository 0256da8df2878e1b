"""Secrets in the text of the main configuration: masked for readers, restored in their uploads.

The JSON form hides them by name (``convert.mask_secrets``). Here the same names are found in the text itself, so that
comments and layout stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from secmon.common.errors import SecmonError
from secmon.config.as_json import MASK, SECTIONS, mask_secrets
from secmon.config.xml import XmlError, parse_xml

_TOKEN = re.compile(
    r"<!--(?P<comment>.*?)-->|<!\[CDATA\[.*?\]\]>|<\?[A-Za-z_].*?\?>"
    r"|<(?P<close>/?)(?P<tag>[A-Za-z_][^\s/>]*)"
    r"(?P<attributes>(?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*)\s*(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"\s+(?P<name>[^\s=/>]+)\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')")
_COMMENTED = re.compile(r"<(?P<tag>[A-Za-z_][\w.-]*)(?:\s[^<>]*)?>(?P<value>[^<]+)")

_Key: TypeAlias = tuple[object, ...]


@dataclass
class _Section:
    """A section of the text. ``name`` is a wodle's own; ``identity`` distinguishes sections that may repeat."""

    name: str = ""
    start: int = 0
    end: int = 0
    identity: str = ""
    slots: "list[_Slot]" = field(default_factory=list)


class _Slot(NamedTuple):
    """Position of a secret: a range of the text, and the names from the section down to it."""

    start: int
    end: int
    path: tuple[str, ...]


@lru_cache(maxsize=4096)
def is_secret(section: str, option: str) -> bool:
    """Whether the JSON form masks ``option`` in ``section``; both forms use this function."""
    return mask_secrets({section: {option: "?"}}) == {section: {option: MASK}}


def mask_text(text: str) -> str:
    """``text`` with ``*****`` for the keys, passwords and tokens, those in comments included.

    Raises XmlError 1101 for text that is not well formed: secrets cannot be found in it.
    """
    parse_xml(text, "ossec.conf", code=1101)
    ranges = [(slot.start, slot.end) for section in _read(text) for slot in section.slots]
    return _replace(text, [*ranges, *_in_comments(text)], [])


def restore_text(text: str, saved: str) -> str:
    """``text`` where the secrets that read ``*****`` have the values that they have in ``saved``.

    A section that is otherwise unchanged takes them place by place; another one by section, name and option. Raises
    1125 when ``saved`` has no value for one, or several that differ; XmlError 1113 for text that is not well formed.
    """
    parse_xml(text, "ossec.conf")
    known = _values(saved)
    ranges: list[tuple[int, int]] = []
    values: list[str] = []
    for section in _read(text):
        for slot, keys in zip(section.slots, _keys(text, section), strict=True):
            if text[slot.start : slot.end].strip() == MASK:
                ranges.append((slot.start, slot.end))
                values.append(_find(known, keys))
    return _replace(text, ranges, values)


def _values(saved: str) -> dict[_Key, set[str]]:
    values: dict[_Key, set[str]] = defaultdict(set)
    try:
        parse_xml(saved, "ossec.conf")
    except XmlError:
        return values
    for section in _read(saved):
        for slot, keys in zip(section.slots, _keys(saved, section), strict=True):
            for key in keys:
                values[key].add(saved[slot.start : slot.end])
    return values


def _keys(text: str, section: _Section) -> Iterator[tuple[_Key, _Key]]:
    """Keys of each secret: its place in an unchanged section; section, identity and path."""
    slots = [(slot.start - section.start, slot.end - section.start) for slot in section.slots]
    unchanged = _replace(text[section.start : section.end], slots, [])
    for number, slot in enumerate(section.slots):
        yield (unchanged, number), (section.name, section.identity, slot.path)


def _find(known: dict[_Key, set[str]], keys: tuple[_Key, _Key]) -> str:
    found = next((known[key] for key in keys if key in known), set[str]())
    if len(found) == 1 and (value := next(iter(found))).strip() != MASK:
        return value
    section, _, path = keys[-1]
    assert isinstance(path, tuple)
    problem = "several values" if len(found) > 1 else "no value"
    where = ".".join((str(section), *path))
    raise SecmonError(1125, f"{where} reads {MASK} and the file on disk has {problem} for it; write the value itself")


def _replace(text: str, ranges: list[tuple[int, int]], values: list[str]) -> str:
    """``text`` with the mask, or the value of the same number, in place of each range; the outermost counts."""
    pieces: list[str] = []
    end = 0
    for (start, stop), value in sorted(zip(ranges, values or [MASK] * len(ranges), strict=True)):
        if start >= end:
            pieces += text[end:start], value
            end = stop
    return "".join([*pieces, text[end:]])


def _in_comments(text: str) -> Iterator[tuple[int, int]]:
    """Values of commented-out options with the name of a secret, whatever their section was."""
    for token in _TOKEN.finditer(text):
        if token["comment"] is not None:
            for option in _COMMENTED.finditer(text, *token.span("comment")):
                if option["value"].strip() and any(is_secret(one, option["tag"].lower()) for one in SECTIONS):
                    yield option.span("value")


def _read(text: str) -> list[_Section]:
    """The sections of well-formed ``text``; the first of the list holds the text outside of all sections."""
    reader = _Reader(text)
    for token in _TOKEN.finditer(text):
        if token["tag"] is not None:
            if token["close"]:
                reader.close(token)
            else:
                reader.open(token)
                if token["empty"]:
                    reader.close(token)
    return reader.sections


class _Reader:
    """Follows the tags of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.sections = [_Section(end=len(text))]
        self._open: list[tuple[str, int]] = []  # name, and where its content starts
        self._hidden = 0  # how many elements were open when a secret one was

    def open(self, tag: "re.Match[str]") -> None:
        name = tag["tag"].lower()
        if len(self._open) == 1:
            own = next((one["double"] or one["single"] for one in self._attributes(tag) if one["name"] == "name"), "")
            label = (own or "").strip().lower() if name == "wodle" else name
            self.sections.append(_Section(label, tag.start(), tag.end()))
        secret = not self._hidden and self._secret(name)
        if not self._hidden:
            for one in self._attributes(tag):
                if secret or self._secret(one["name"].lower()):
                    self._note(*one.span("double" if one["double"] is not None else "single"), name, f"@{one['name']}")
        self._open.append((name, tag.end()))
        if secret:
            self._hidden = len(self._open)

    def close(self, tag: "re.Match[str]") -> None:
        name, start = self._open.pop()
        end = max(start, tag.start())
        if self._hidden > len(self._open):
            self._hidden = 0
            self._note(start, end, name)
        depth, section = len(self._open), self.sections[-1]
        if depth == 1:
            section.end = tag.end()
        elif depth == 2 and name == "name":
            rule = SECTIONS.get(section.name)
            section.identity = self._text[start:end].strip() if rule is None or rule.repeats == "duplicate" else ""

    def _attributes(self, tag: "re.Match[str]") -> Iterator["re.Match[str]"]:
        return _ATTRIBUTE.finditer(self._text, *tag.span("attributes"))

    def _secret(self, name: str) -> bool:
        """Whether any of the elements around makes ``name`` a secret; the section does, for files as they should be."""
        around = [self.sections[-1].name, *(one for one, _ in self._open)] if self._open else [""]
        return any(is_secret(one, name) for one in around)

    def _note(self, start: int, end: int, *names: str) -> None:
        if self._text[start:end].strip():
            path = (*(name for name, _ in self._open[2:]), *names)
            self.sections[-1 if len(self._open) > 1 else 0].slots.append(_Slot(start, end, path))
