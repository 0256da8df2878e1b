"""Loads rule files into the tree of rules (ruleset.md 6.3 to 6.5)."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from secmon.engine.decoders.decoder import Decoders
from secmon.engine.matching import PatternError, compile_expression
from secmon.engine.matching.osmatch import OSMatch, search_word
from secmon.engine.rules.composite import composite_condition
from secmon.engine.rules.conditions import conditions_of, own_conditions
from secmon.engine.rules.rule import ALERT_LEVEL, DEFAULT_FREQUENCY, MAIL_LEVEL, Composite, Rule
from secmon.engine.rules.rule_draft import Draft
from secmon.engine.rules.rule_reader import IN_CLUSTER, RuleReader
from secmon.engine.rules.text_conditions import value_of
from secmon.engine.ruleset.cdb_list import CdbList
from secmon.engine.ruleset.diagnostics import Diagnostics, RulesetError
from secmon.engine.ruleset.load_cache import ReadFiles
from secmon.engine.ruleset.ruleset_xml import Element, VariableError, XmlError, parse

FIRST_NON_ROOT_ID = 10
"""Rules with smaller ids are the roots of the tree, one for each category."""
_MAX_DIGITS = 20
"""Digits of a number that may be an id or a level."""
MAX_LINKS = 500_000
"""From parents to children, and from rules to composites that count their events: our ruleset has 8,000.

Rules that name groups may have them in the square of their number, and each takes microseconds of a load."""


@dataclass
class Rules:
    """All rules: the roots in order, those of side trees, and every rule by its id."""

    roots: list[Rule] = field(default_factory=list)
    side_roots: list[Rule] = field(default_factory=list)
    by_id: dict[int, Rule] = field(default_factory=dict)


class RuleLoader:
    """Loads files in load order. A parent must be loaded before its children."""

    def __init__(
        self,
        decoders: Decoders,
        lists: Mapping[str, CdbList],
        diagnostics: Diagnostics,
        *,
        alert_level: int = ALERT_LEVEL,
        mail_level: int = MAIL_LEVEL,
        default_timeframe: int = 360,
        field_limit: int = 256,
        known: "ReadFiles[Draft] | None" = None,
    ) -> None:
        self.rules = Rules()
        self._known = known or ReadFiles[Draft]()
        self._decoders, self._lists, self._diagnostics = decoders, lists, diagnostics
        self._alert_level, self._mail_level = alert_level, mail_level
        self._default_timeframe, self._field_limit = default_timeframe, field_limit
        self._by_groups: dict[bytes, list[Rule]] = {}
        self._overwritten = False
        self._links = 0
        """Whether a rule has been overwritten, maybe by one of another weight."""

    def load(self, file: str, data: bytes) -> None:
        """Add the rules of one file. Raises RulesetError."""
        drafts = self._known.read(file, data, self._diagnostics, self._read)
        for name, line, rule in ((name, line, draft.id) for draft in drafts for name, line in draft.decoded_as):
            if name not in self._decoders.ids:
                raise RulesetError(1274, f"decoder {name!r} of rule {rule} is not known", file=file, line=line)
        for draft in drafts:
            self._add(draft)

    def _read(self, file: str, data: bytes, diagnostics: Diagnostics) -> list[Draft]:
        try:
            roots = parse(data)
        except VariableError as error:
            raise RulesetError(1227, f"variable error: {error.problem}", file=file, line=error.line) from None
        except XmlError as error:
            raise RulesetError(1226, f"XML error: {error.problem}", file=file, line=error.line) from None
        if not roots and data:
            raise RulesetError(1226, "the file holds no element", file=file)
        limits = {"default_timeframe": self._default_timeframe, "field_limit": self._field_limit}
        reader = RuleReader(file, diagnostics, **limits)
        return [draft for group in roots for draft in _read_group(file, group, reader)]

    def finish(self) -> None:
        """All files are loaded: note which events are counted over the cluster."""
        for rule in self.rules.by_id.values():
            counting = rule.composites_by_id or rule.composites_by_group
            rule.composites_in_cluster = tuple(one for one in counting if one.composite and one.composite.in_cluster)

    # -- one rule

    def _add(self, draft: Draft) -> None:
        existing = self.rules.by_id.get(draft.id)
        if existing is not None and not draft.overwrite:
            self._warn(7612, f"rule {draft.id} exists already; this one is left out", draft)
            return
        if existing is not None:
            self._overwrite(existing, draft)
            return
        if draft.overwrite:
            self._warn(7613, f"rule {draft.id} overwrites none", draft)
        if self._unknown_list(draft):
            return
        rule = self._rule(draft)
        if not self._target_loaded(rule, draft) or not self._insert_into_tree(rule, draft):
            return
        self.rules.by_id[rule.id] = rule
        self._by_groups.setdefault(rule.groups.lower(), []).append(rule)
        self._register_composite(rule, draft)

    def _rule(self, draft: Draft) -> Rule:
        options = draft.options
        rule = Rule(
            id=draft.id,
            level=draft.level,
            file=draft.file,
            line=draft.line,
            description=draft.description or b"",
            groups=draft.groups,
            category=draft.category or "syslog",
            noalert=draft.noalert,
            accuracy=draft.accuracy,
            ignore=draft.ignore,
            ignored_fields=draft.ignored_fields,
            check_ignored=draft.check_ignored,
            mail=(draft.level >= self._mail_level or "alert_by_email" in options) and "no_email_alert" not in options,
            write=(draft.level >= self._alert_level or "log_alert" in options) and "no_log" not in options,
            active_response="no_ar" not in options,
            full_log="no_full_log" not in options,
            counter="no_counter" not in options,
            info=draft.info,
            cve=draft.cve,
            mitre=tuple(draft.mitre),
        )
        self._compile(rule, draft)
        return rule

    def _compile(self, rule: Rule, draft: Draft) -> None:
        """Set conditions and preconditions; the search of a composite is the last condition."""
        rule.decoder = self._decoders.ids[draft.decoded_as[-1][0]] if draft.decoded_as else None
        rule.conditions = conditions_of(draft, rule.decoder, self._lists)
        rule.preconditions = draft.preconditions
        if draft.is_composite:
            rule.composite = self._composite(draft)
            rule.conditions += (composite_condition(rule.id, rule.level, rule.composite),)

    def _composite(self, draft: Draft) -> Composite:
        sid, group = draft.parents.get("if_matched_sid"), draft.parents.get("if_matched_group")
        regex = None
        if draft.matched_regex is not None:
            try:
                regex = compile_expression("osregex", draft.matched_regex)
            except PatternError as error:
                text = f"if_matched_regex of rule {draft.id}: {error}"
                raise RulesetError(5107, text, file=draft.file, line=draft.line) from None
        return Composite(
            frequency=draft.frequency or DEFAULT_FREQUENCY,
            timeframe=draft.timeframe,
            sid=_number(sid),
            group=group.encode() if group and not sid else None,
            regex=regex,
            same=tuple(dict.fromkeys(draft.same)),
            different=tuple(dict.fromkeys(draft.different)),
            same_fields=tuple(draft.same_fields),
            different_fields=tuple(draft.different_fields),
            distinct_fields=tuple(draft.distinct_fields),
            same_values=tuple(value_of(name) for name in draft.same_fields),
            distinct_values=tuple(value_of(name) for name in draft.distinct_fields),
            each=draft.matched_all,
            in_order=draft.in_order,
            every_agent=draft.every_agent,
            in_cluster=IN_CLUSTER in draft.options,
        )

    def _overwrite(self, rule: Rule, draft: Draft) -> None:
        """Replace the definition of a rule; parents, children and composites stay (ruleset.md 6.5).

        Siblings that come later are placed by the new level. Level 0 is the lowest one here.
        """
        for name in ("if_sid", "if_group", "if_level"):
            if name in draft.parents:
                self._warn(7605, f"{name} of rule {draft.id} cannot be changed by an overwrite", draft)
        if self._unknown_list(draft):
            return
        self._overwritten = True
        old = rule.composite
        new = self._rule(draft)
        if new.composite is not None and old is not None:
            new.composite.sid, new.composite.group = old.sid, old.group
        self._by_groups[rule.groups.lower()].remove(rule)
        self._by_groups.setdefault(new.groups.lower(), []).append(rule)
        if new.level == 0:
            new.weight = 0
        keep = {"children", "composites_by_group", "composites_by_id", "occurrences"}
        for name in Rule.__slots__:
            if name not in keep:
                setattr(rule, name, getattr(new, name))

    def _unknown_list(self, draft: Draft) -> bool:
        missing = [one.path for one in draft.lists if one.path not in self._lists]
        for path in missing:
            self._warn(7616, f"list {path!r} of rule {draft.id} is not loaded; the rule is left out", draft)
        return bool(missing)

    # -- memories of composites

    def _target_loaded(self, rule: Rule, draft: Draft) -> bool:
        """Whether the rules that a composite names are loaded; without them it is skipped."""
        missing = [one for one in draft.matched_all if one not in self.rules.by_id]
        if missing:
            self._warn(7620, f"rule {missing[0]}, which rule {draft.id} looks back for, is not loaded", draft)
            return False
        text = draft.parents.get("if_matched_sid")
        if rule.composite is None or text is None:
            return True
        if rule.composite.sid is None:
            self._warn(7615, f"if_matched_sid {text!r} of rule {draft.id} is not a number", draft)
        elif rule.composite.sid not in self.rules.by_id:
            sid = rule.composite.sid
            self._warn(7620, f"rule {sid}, which rule {draft.id} looks back for, is not loaded", draft)
        else:
            return True
        return False

    def _register_composite(self, rule: Rule, draft: Draft) -> None:
        """Add a composite to the rules whose events it counts: those loaded so far, itself included."""
        composite = rule.composite
        if composite is None:
            return
        if composite.each:
            for sid in dict.fromkeys(composite.each):
                self.rules.by_id[sid].composites_by_id += (rule,)
        elif composite.sid is not None:
            self.rules.by_id[composite.sid].composites_by_id += (rule,)
        elif composite.group is not None:
            wanted = OSMatch(composite.group)
            counted = self._in_groups(wanted.test, wanted.literals)
            self._count_links(len(counted), draft)
            for one in counted:
                one.composites_by_group += (rule,)

    # -- the tree

    def _insert_into_tree(self, rule: Rule, draft: Draft) -> bool:
        """Insert the rule below its parents; False when it has none and is skipped."""
        if draft.side_tree:
            self.rules.side_roots.append(rule)
            return True
        if rule.id < FIRST_NON_ROOT_ID:
            _insert(self.rules.roots, rule, sorted_by_weight=not self._overwritten)
            return True
        parents = self._parents(rule, draft)
        rule.occurrences = sum(parent.occurrences for parent in parents)
        self._count_links(len(parents), draft)
        for parent in parents:
            _insert(parent.children, rule, sorted_by_weight=not self._overwritten)
        return bool(parents)

    def _count_links(self, more: int, draft: Draft) -> None:
        self._links += more
        if self._links > MAX_LINKS:
            text = f"with rule {draft.id} the rules have more than {MAX_LINKS} links by if_sid, if_group and if_level"
            raise RulesetError(5107, text, file=draft.file, line=draft.line)

    def _parents(self, rule: Rule, draft: Draft) -> list[Rule]:
        given = dict(draft.parents)
        if "if_sid" not in given and "if_group" not in given:
            if "if_matched_group" in given:
                given["if_group"] = given["if_matched_group"]
            elif "if_matched_sid" in given:
                given["if_sid"] = given["if_matched_sid"]
        if "if_sid" in given:
            return self._by_id(rule, draft, given["if_sid"])
        if "if_level" in given:
            return self._by_level(draft, given["if_level"])
        if "if_group" in given:
            return self._by_group(draft, given["if_group"])
        found = [one for one in self.rules.roots if one.category == rule.category][:1]
        if not found:
            self._warn(7611, f"no rule is the root of category {rule.category!r}; rule {draft.id} is left out", draft)
        return found

    def _by_id(self, rule: Rule, draft: Draft, text: str) -> list[Rule]:
        if not re.fullmatch(r"[0-9,\s]+", text):
            self._warn(7618, f"if_sid {text!r} of rule {draft.id} holds more than numbers", draft)
            return []
        found: list[Rule] = []
        for one in dict.fromkeys(each.lstrip("0") or "0" for each in re.findall("[0-9]+", text)):
            parent = self.rules.by_id.get(_number(one) or -1)
            if parent is None:
                self._warn(7617, f"rule {one[:_MAX_DIGITS]}, a parent of rule {draft.id}, is not loaded", draft)
            else:
                found.append(parent)
        if found:
            rule.category = found[0].category
        else:
            self._warn(7619, f"rule {draft.id} has no parent; it is left out", draft)
        return found

    def _by_level(self, draft: Draft, text: str) -> list[Rule]:
        level = _number(text)
        if not level:
            self._warn(7609, f"if_level {text!r} of rule {draft.id} is not a level", draft)
            return []
        found = [one for one in self.rules.by_id.values() if one.weight >= level * 100]
        if not found:
            self._warn(7608, f"no rule has the if_level {text} of rule {draft.id}", draft)
        return found

    def _by_group(self, draft: Draft, text: str) -> list[Rule]:
        found = self._in_groups(lambda groups: search_word(text.encode(), groups))
        if not found:
            self._warn(7610, f"no rule has the if_group {text!r} of rule {draft.id}", draft)
        return found

    def _in_groups(self, wanted: Callable[[bytes], bool], literals: list[bytes] | None = None) -> list[Rule]:
        """The rules whose group string, in lower case, passes ``wanted``; each distinct string is tested once.

        ``literals``: a string without any of them cannot pass.
        """
        strings = self._by_groups
        if literals is not None:
            only = literals[0] if len(literals) == 1 else None
            strings = {
                groups: rules
                for groups, rules in strings.items()
                if (only in groups if only is not None else any(one in groups for one in literals))
            }
        return [one for groups, rules in strings.items() if wanted(groups) for one in rules]

    def _warn(self, number: int, text: str, draft: Draft) -> None:
        self._diagnostics.warn(number, text, file=draft.file, line=draft.line)


def _number(text: str | None) -> int | None:
    """An id or a level in ASCII digits; None for any other text."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _read_group(file: str, group: Element, reader: RuleReader) -> Iterator[Draft]:
    if group.key != "group" or list(group.attributes) != ["name"]:
        text = f"invalid element {group.name!r}: rules must be in a group with a name"
        raise RulesetError(1230, text, file=file, line=group.line)
    if not group.children:
        raise RulesetError(1231, "the group is empty", file=file, line=group.line)
    for element in group.children:
        if element.key != "rule":
            raise RulesetError(1230, f"invalid element {element.name!r}", file=file, line=element.line)
        draft = reader.read(element)
        draft.groups = group.attributes["name"] + draft.groups
        draft.conditions, draft.preconditions = own_conditions(draft)
        yield draft


def _insert(siblings: list[Rule], rule: Rule, *, sorted_by_weight: bool) -> None:
    """Insert before the first sibling of less weight. After an overwrite siblings need not be sorted by weight."""
    if sorted_by_weight:
        at = bisect_right(siblings, -rule.weight, key=lambda one: -one.weight)
    else:
        at = next((at for at, one in enumerate(siblings) if one.weight < rule.weight), len(siblings))
    siblings.insert(at, rule)
