"""Reads the elements of a rule that test texts, and groups of them (ruleset.md 6.2)."""

from typing import cast

from secmon.engine.rules.condition_groups import GROUP_KINDS, ConditionGroup, GroupKind, Member
from secmon.engine.rules.rule_draft import Draft
from secmon.engine.rules.text_conditions import DEFAULT_KINDS, GETTERS, NOT_DYNAMIC, TextElement, TextKind
from secmon.engine.ruleset.diagnostics import Diagnostics, RulesetError
from secmon.engine.ruleset.ruleset_xml import Element

MAX_TEXT_PART = 2048
MAX_GROUP_DEPTH = 20
_KINDS = ("osmatch", "osregex", "pcre2", "string", "cidr", "number", "reference")


class TextReader:
    """For the rules of one file."""

    def __init__(self, file: str, diagnostics: Diagnostics, *, field_limit: int) -> None:
        self._file, self._diagnostics, self._field_limit = file, diagnostics, field_limit

    def _text(self, draft: Draft, child: Element, text: TextElement) -> None:
        default = DEFAULT_KINDS.get(child.key, "osregex" if child.key == "field" else "osmatch")
        text.kind = self._kind(draft, child, default)
        text.negated = self._negated(draft, child)
        text.content += child.content[:MAX_TEXT_PART]

    def _kind(self, draft: Draft, child: Element, default: TextKind) -> TextKind:
        value = child.attributes.get("type", b"").decode("latin-1").lower()
        if value and value not in _KINDS:
            self._warn(7600, f"type {value!r} of {child.key} in rule {draft.id} is not known; {default} is used", child)
        return cast(TextKind, value) if value in _KINDS else default

    def _negated(self, draft: Draft, child: Element) -> bool:
        value = child.attributes.get("negate", b"no").decode("latin-1")
        return self._switch(value, ("no", "yes"), "negate", draft, child)

    def _field(self, draft: Draft, child: Element) -> tuple[str, TextElement]:
        name = child.attributes.get("name", b"").decode("utf-8", "replace")
        plain = child.attributes.get("plain", b"no").decode("latin-1")
        if not name or (name.lower() in NOT_DYNAMIC and plain != "yes"):
            raise self._error(1274, f"field of rule {draft.id} cannot name {name!r}", child)
        if len(draft.fields) >= self._field_limit:
            raise self._error(1274, f"rule {draft.id} has more than {self._field_limit} fields", child)
        text = TextElement("osregex")
        self._text(draft, child, text)
        text.plain = self._switch(plain, ("no", "yes"), "plain", draft, child)
        return name, text

    def _condition_group(self, draft: Draft, element: Element, depth: int = 0) -> ConditionGroup:
        made = ConditionGroup(cast(GroupKind, element.key))
        if not element.children or depth == MAX_GROUP_DEPTH:
            problem = (
                f"has more than {MAX_GROUP_DEPTH} groups in each other" if depth else f"has an empty {element.name!r}"
            )
            raise self._error(1274, f"rule {draft.id} {problem}", element)
        for child in element.children:
            if child.key in GROUP_KINDS:
                made.members.append(self._condition_group(draft, child, depth + 1))
            elif child.key == "field":
                made.members.append(Member(*self._field(draft, child), is_field=True))
            elif child.key in GETTERS:
                text = TextElement(DEFAULT_KINDS.get(child.key, "osmatch"))
                self._text(draft, child, text)
                made.members.append(Member(child.key, text))
            else:
                raise self._error(1279, f"{element.name!r} of rule {draft.id} cannot have {child.name!r}", child)
        return made

    def _switch(self, value: str, allowed: tuple[str, str], name: str, draft: Draft, element: Element) -> bool:
        if value not in allowed:
            self._warn(
                7600, f"value {value!r} of {name} in rule {draft.id} is not known; {allowed[0]} is used", element
            )
        return value == allowed[1]

    def _warn(self, number: int, text: str, at: Element) -> None:
        self._diagnostics.warn(number, text, file=self._file, line=at.line)

    def _error(self, number: int, text: str, at: Element) -> RulesetError:
        return RulesetError(number, text, file=self._file, line=at.line)
