"""Rules of ours as XML (docs/write-rules.md)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secmon.importers.sigma.conditions import Condition, Group, TextTest, all_of

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_NOT_IN_GROUP = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_DESCRIPTION = 300
MAX_INFO = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlRule:
    """A rule. ``body``: further elements, such as those of a composite."""

    id: int
    level: int
    description: str
    condition: Condition
    parent: int | None = None
    attributes: str = ""
    body: Sequence[str] = ()
    groups: Sequence[str] = ()
    techniques: Sequence[str] = ()
    info: str = ""
    cve: str = ""

    def text(self) -> bytes:
        """The element, without the one around it."""
        lines = [f'<rule id="{self.id}" level="{self.level}"{self.attributes}>'.encode()]
        lines += [f"  <if_sid>{self.parent}</if_sid>".encode()] if self.parent is not None else []
        lines += [b"  " + one for one in _elements(self.condition)]
        lines += [f"  {one}".encode() for one in self.body]
        lines.append(f"  <description>{readable(self.description, MAX_DESCRIPTION)}</description>".encode())
        if self.info:
            lines.append(f"  <info>{readable(self.info, MAX_INFO)}</info>".encode())
        if self.cve:
            lines.append(f"  <cve>{readable(self.cve, MAX_INFO)}</cve>".encode())
        if self.techniques:
            lines.append(f"  <mitre>{''.join(f'<id>{one}</id>' for one in self.techniques)}</mitre>".encode())
        if self.groups:
            names = "".join(_NOT_IN_GROUP.sub("_", one) + "," for one in self.groups)
            lines.append(f"  <group>{names}</group>".encode())
        return b"\n".join((*lines, b"</rule>", b""))


def file_of(rules: Sequence[XmlRule], comment: str) -> bytes:
    """A file of rules; they are in the group ``sigma``."""
    body = b"\n".join(rule.text() for rule in rules)
    return f'<!-- {comment} -->\n\n<group name="sigma,">\n\n'.encode() + body + b"\n</group>\n"


def readable(text: str, limit: int) -> str:
    """A text without what files of rules take for something else: elements, references to fields, line ends."""
    plain = _CONTROL.sub(" ", text).replace("<", "\u2039").replace("$(", "$ (").strip()
    plain = plain.encode("utf-8", "replace").decode()
    return (plain if len(plain) <= limit else f"{plain[:limit]}...").rstrip("\\")


def _elements(condition: Condition) -> Iterator[bytes]:
    """The conditions of a rule: all of these elements."""
    top = all_of([condition])
    for one in top.members if isinstance(top, Group) and top.kind == "all" else (top,):
        yield from _lines(one)


def _lines(condition: Condition) -> Iterator[bytes]:
    if isinstance(condition, TextTest):
        yield _test(condition)
        return
    yield f"<{condition.kind}>".encode()
    for one in condition.members:
        for line in _lines(one):
            yield b"  " + line
    yield f"</{condition.kind}>".encode()


def _test(test: TextTest) -> bytes:
    if test.element == "decoded_as":
        return b"<decoded_as>%s</decoded_as>" % test.content
    name = f' name="{test.field}" plain="yes"' if test.field else ""
    return f'<{test.element}{name} type="{test.kind}">'.encode() + _closable(test) + f"</{test.element}>".encode()


def _closable(test: TextTest) -> bytes:
    r"""The content of an element. A backslash at its end would hide the bracket of the closing tag (ruleset.md 2.1).

    So OS_Match gets one more alternative, which the last one implies.
    """
    content = test.content
    if (len(content) - len(content.rstrip(b"\\"))) % 2 == 0:
        return content
    assert test.kind == "osmatch", "patterns of PCRE2 end with pairs of backslashes"
    return content + b"|" + content.rpartition(b"|")[2] + b"\\"
