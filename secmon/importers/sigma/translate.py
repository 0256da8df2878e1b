"""Sigma rules as rules of ours: one for each, below the root of a side tree for its log source."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sigma.correlations import SigmaCorrelationRule
from sigma.rule import SigmaRule

from secmon.importers.sigma.conditions import ALWAYS, MAX_DEPTH, NEVER, Condition, depth
from secmon.importers.sigma.correlations import Alert, Correlation, Counted, aggregation_of, correlation_of, rules_of
from secmon.importers.sigma.detection import detection_of
from secmon.importers.sigma.ids import HELPER, IdMap
from secmon.importers.sigma.mapping import KEYS, LogSource, mapping
from secmon.importers.sigma.placeholders import Values, expanded
from secmon.importers.sigma.report import SigmaLine
from secmon.importers.sigma.rule_xml import XmlRule
from secmon.importers.sigma.source import PARSER_ERRORS, BadFile, Document, one_line, reason
from secmon.importers.sigma.values import Untranslatable

DEFAULT_LEVEL = "medium"
_NOT_IN_USE = ("deprecated", "unsupported")
AnyRule = SigmaRule | SigmaCorrelationRule


@dataclass(slots=True)
class Parsed:
    """A document that is a Sigma rule. ``counting``: what an aggregation in its condition counts."""

    document: Document
    rule: AnyRule
    counting: Correlation | None = None

    @property
    def key(self) -> str:
        """What the id of our rule belongs to: the id of Sigma's, or the title of one that has none."""
        return str(self.rule.id) if self.rule.id else f"title {self.rule.title}"

    def line(self, **values: Any) -> SigmaLine:
        uuid = str(self.rule.id or "")
        return SigmaLine(place=self.document.place, title=self.rule.title or "", uuid=uuid, **values)


@dataclass(slots=True)
class Translation:
    """The rules, each after its parent, and a line for each document, in their order."""

    rules: list[XmlRule] = field(default_factory=list)
    lines: list[SigmaLine] = field(default_factory=list)


def translate(
    documents: Iterable[Document | tuple[str, BadFile]], ids: IdMap, values: Values = MappingProxyType({})
) -> Translation:
    """Translate all that can be; ``ids`` gets those of what is new. ``values``: of placeholders. Raises IdMapError."""
    given = (expanded(one, values) if isinstance(one, Document) else one for one in documents)
    return _Translator(ids).translate(given)


class _Translator:
    def __init__(self, ids: IdMap) -> None:
        self._ids = ids
        self._roots: dict[str, XmlRule] = {}
        self._made: list[XmlRule] = []
        self._by_reference: dict[str, Parsed] = {}

    def translate(self, documents: Iterable[Document | tuple[str, BadFile]]) -> Translation:
        lines: list[SigmaLine | Parsed] = [self._parsed(one) for one in documents]
        parsed = [one for one in lines if isinstance(one, Parsed)]
        for one in parsed:
            for reference in (str(one.rule.id or ""), one.rule.name or ""):
                self._by_reference.setdefault(reference, one)
        counted = set(self._only_counted(parsed))
        made = [one if isinstance(one, SigmaLine) else self._line(one, one.key in counted) for one in lines]
        return Translation([*self._roots.values(), *self._made], made)

    # -- documents

    def _parsed(self, document: Document | tuple[str, BadFile]) -> Parsed | SigmaLine:
        if not isinstance(document, Document):
            place, error = document
            return SigmaLine("unreadable", place, reason=str(error))
        title, uuid = document.title[:200], str(document.content.get("id", ""))[:40]
        try:
            document, counting = _without_aggregation(document)
            parsed = Parsed(document, document.parse(), counting)
        except (BadFile, Untranslatable) as error:
            result = "unreadable" if isinstance(error, BadFile) else "untranslated"
            return SigmaLine(result, document.place, title, uuid, reason=one_line(error))  # type: ignore[arg-type]
        known = self._by_reference.setdefault(f"document {parsed.key}", parsed)
        if known is not parsed:
            return parsed.line(result="unreadable", reason=f"its id is that of {known.document.place}")
        return parsed

    def _only_counted(self, parsed: Sequence[Parsed]) -> Iterator[str]:
        """The keys of rules that correlations count, and that make no alerts by themselves."""
        for one in parsed:
            if isinstance(one.rule, SigmaCorrelationRule) and not one.rule.generate:
                for reference in one.rule.rules or ():
                    found = self._by_reference.get(reference.reference)
                    if found is not None:
                        yield found.key

    # -- rules

    def _line(self, parsed: Parsed, counted: bool) -> SigmaLine:
        before = len(self._made)
        try:
            if parsed.rule.status is not None and parsed.rule.status.name.lower() in _NOT_IN_USE:
                raise Untranslatable(f"its status is {parsed.rule.status.name.lower()}")
            if counted and isinstance(parsed.rule, SigmaRule):
                self._counted(parsed)
                return parsed.line(result="counted")
            self._add(parsed)
        except Untranslatable as error:
            del self._made[before:]
            return parsed.line(result="untranslated", reason=one_line(error))
        return parsed.line(result="imported", id=self._ids[parsed.key])

    def _add(self, parsed: Parsed) -> None:
        rule = parsed.rule
        if isinstance(rule, SigmaCorrelationRule):
            counted = [self._referenced(one.reference) for one in rule.rules or ()]
            self._made += rules_of(correlation_of(rule), counted, self._alert(parsed))
        elif parsed.counting is not None:
            self._made += rules_of(parsed.counting, [self._counted(parsed)], self._alert(parsed))
        else:
            one = self._counted(parsed)
            made = self._rule(parsed, self._ids[parsed.key], one.condition)
            self._made.append(replace(made, parent=self._root(one.source).id))

    def _referenced(self, reference: str) -> Counted:
        found = self._by_reference.get(reference)
        if found is None:
            raise Untranslatable(f"the rule {reference[:80]!r} that it counts is not among the files")
        if not isinstance(found.rule, SigmaRule) or found.counting is not None:
            raise Untranslatable("a correlation of correlations")
        try:
            return self._counted(found)
        except Untranslatable as error:
            raise Untranslatable(f"{found.document.place}, which it counts: {one_line(error)}") from None

    def _counted(self, parsed: Parsed) -> Counted:
        rule = parsed.rule
        assert isinstance(rule, SigmaRule), "correlations are not counted"
        source = mapping().source_of({key: value for key in KEYS if (value := getattr(rule.logsource, key))})
        try:
            condition = detection_of(rule, source)
        except PARSER_ERRORS as error:
            raise Untranslatable(reason(error)) from None
        return Counted(parsed.key, rule.title or "", source, _useful(condition))

    def _root(self, source: LogSource) -> XmlRule:
        """The root of the side tree of a log source."""
        if source.name not in self._roots:
            self._roots[source.name] = XmlRule(
                id=self._ids[f"{HELPER}log source {source.name}"],
                level=0,
                attributes=' noalert="1" side_tree="yes"',
                condition=source.events,
                description=f"Sigma: events of {source.name}.",
            )
        return self._roots[source.name]

    def _alert(self, parsed: Parsed) -> Alert:
        def make(number: int, condition: Condition, **values: Any) -> XmlRule:
            return replace(self._rule(parsed, number, condition), **values)

        return Alert(parsed.key, self._ids.__getitem__, make)

    def _rule(self, parsed: Parsed, number: int, condition: Condition) -> XmlRule:
        rule = parsed.rule
        tags = [(tag.namespace.lower(), tag.name.lower()) for tag in rule.tags]
        techniques = [name.upper() for space, name in tags if space == "attack" and _is_technique(name)]
        cve = [f"CVE-{name.upper().removeprefix('CVE-').replace('.', '-')}" for space, name in tags if space == "cve"]
        level = rule.level.name.lower() if rule.level is not None else DEFAULT_LEVEL
        return XmlRule(
            id=number,
            level=mapping().levels[level],
            description=f"Sigma: {rule.title}",
            condition=condition,
            groups=[f"attack.{name}" for space, name in tags if space == "attack" and not _is_technique(name)],
            techniques=techniques,
            info=_origin(rule),
            cve=",".join(cve),
        )


def _without_aggregation(document: Document) -> tuple[Document, Correlation | None]:
    """The document with the condition in front of an aggregation alone, and the latter. Raises Untranslatable."""
    detection = document.content.get("detection")
    condition = detection.get("condition") if isinstance(detection, dict) else None
    if isinstance(condition, list) and len(condition) == 1:
        condition = condition[0]
    if not isinstance(condition, str) or not isinstance(detection, dict):
        return document, None
    found = aggregation_of(condition, detection.get("timeframe"))
    if found is None:
        return document, None
    simple = {**document.content, "detection": {**detection, "condition": found[0]}}
    return Document(document.place, simple), found[1]


def _useful(condition: Condition) -> Condition:
    if condition in (ALWAYS, NEVER):
        raise Untranslatable(f"its condition is {'always' if condition == ALWAYS else 'never'} true")
    if depth(condition) > MAX_DEPTH:
        raise Untranslatable(f"its condition has more than {MAX_DEPTH} levels")
    return condition


def _is_technique(name: str) -> bool:
    return name[:1] == "t" and name[1:].replace(".", "").isdigit()


def _origin(rule: AnyRule) -> str:
    """Where the rule is from, and by whom: licences of rules ask for it."""
    parts = [f"Sigma rule {rule.id}" if rule.id else "Sigma rule", f"by {rule.author}" if rule.author else ""]
    parts.append(f"licence {rule.license}" if getattr(rule, "license", None) else "")
    parts.append(str(rule.references[0]) if rule.references else "")
    return ", ".join(one for one in parts if one)
