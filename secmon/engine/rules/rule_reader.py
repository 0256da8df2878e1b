"""Reads one ``rule`` element into a draft, which is checked but not yet in the tree (ruleset.md 6.1 to 6.3)."""

import re
from typing import cast, get_args

from secmon.engine.matching import PatternError, compile_expression
from secmon.engine.matching.addresses import address_test
from secmon.engine.rules.condition_groups import GROUP_KINDS
from secmon.engine.rules.predicates import PREDICATES
from secmon.engine.rules.rule import Category, Mitre
from secmon.engine.rules.rule_draft import Draft, ListLookup
from secmon.engine.rules.text_conditions import DEFAULT_KINDS, GETTERS, LIST_GETTERS, TextElement
from secmon.engine.rules.text_reader import TextReader
from secmon.engine.rules.time_conditions import day_of_week, time_of_day
from secmon.engine.ruleset.cdb_list import Lookup
from secmon.engine.ruleset.diagnostics import Diagnostics
from secmon.engine.ruleset.ruleset_xml import Element

MAX_LEVEL = 16
_FIELDS = 60
"""That a composite compares when it is counted over the cluster; messages hold a few values more."""
IN_CLUSTER = "count_in_cluster"
"""The option of composites that count events of other nodes too."""
_OPTIONS = ("alert_by_email", "no_email_alert", "log_alert", "no_log", "no_ar", "no_full_log", "no_counter", IN_CLUSTER)

_SAME = {
    "same_srcip": "srcip", "same_source_ip": "srcip", "same_dstip": "dstip", "same_srcport": "srcport",
    "same_src_port": "srcport", "same_dstport": "dstport", "same_dst_port": "dstport", "same_srcuser": "srcuser",
    "same_user": "dstuser", "same_id": "id", "same_protocol": "protocol", "same_action": "action", "same_url": "url",
    "same_data": "data", "same_extra_data": "extra_data", "same_status": "status", "same_srcgeoip": "srcgeoip",
    "same_dstgeoip": "dstgeoip", "same_location": "location", "same_system_name": "system_name",
}  # fmt: skip
_DIFFERENT = {f"different_{name[5:]}": key for name, key in _SAME.items() if name != "same_source_ip"} | {
    "not_same_source_ip": "srcip", "not_same_user": "dstuser", "not_same_id": "id",
}  # fmt: skip
_LOWER_ONLY = frozenset(
    ["same_id", "same_url", "same_data", "same_extra_data", "same_status", "same_system_name", "same_srcgeoip",
     "same_dstgeoip", "different_srcip", "different_protocol", "different_action", "different_id", "different_url",
     "different_data", "different_extra_data", "different_status", "different_system_name", "different_srcgeoip",
     "different_dstgeoip", "not_same_source_ip", "not_same_id"]
)  # fmt: skip
"""Names that must be in lower case."""


class RuleReader(TextReader):
    """Reads the rules of one file."""

    def __init__(
        self,
        file: str,
        diagnostics: Diagnostics,
        *,
        default_timeframe: int = 360,
        field_limit: int = 256,
    ) -> None:
        super().__init__(file, diagnostics, field_limit=field_limit)
        self._default_timeframe = default_timeframe

    def read(self, element: Element) -> Draft:
        """Raises RulesetError for errors that keep the whole ruleset from loading."""
        draft = self._attributes(element)
        if not element.children:
            raise self._error(1231, f"rule {draft.id} is empty", element)
        new_mitre: list[Mitre] = []
        for child in element.children:
            if child.key == "mitre":
                self._mitre(draft, child, new_mitre)
            else:
                self._child(draft, child)
        draft.mitre = new_mitre or draft.mitre
        self._finish(draft, element)
        return draft

    # -- attributes

    def _attributes(self, element: Element) -> Draft:
        given = {name.lower(): value.decode("latin-1") for name, value in element.attributes.items()}
        known = {
            "id",
            "level",
            "maxsize",
            "timeframe",
            "frequency",
            "accuracy",
            "ignore",
            "noalert",
            "overwrite",
            "side_tree",
        }
        for name in given:
            if name not in known:
                raise self._error(1279, f"a rule has no attribute {name!r}", element)
        number = self._number(given, "id", element, most=999_999)
        level = self._number(given, "level", element, most=MAX_LEVEL)
        draft = Draft(number, level, self._file, element.line, timeframe=self._default_timeframe)
        cuts = {"maxsize": 4, "timeframe": 5, "ignore": 6, "accuracy": 9}
        for name in (one for one in cuts if one in given):
            setattr(draft, name, self._number(given, name, element, digits=cuts[name]))
        if "frequency" in given:
            draft.frequency = self._number(given, "frequency", element, least=2, most=9999)
        draft.noalert = self._switch(given.get("noalert", "0"), ("0", "1"), "noalert", draft, element)
        draft.overwrite = self._switch(given.get("overwrite", "no"), ("no", "yes"), "overwrite", draft, element)
        draft.side_tree = self._switch(given.get("side_tree", "no"), ("no", "yes"), "side_tree", draft, element)
        return draft

    def _number(
        self, given: dict[str, str], name: str, element: Element, *, least: int = 0, most: int = 10**9, digits: int = 10
    ) -> int:
        text = given.get(name, "")
        if not re.fullmatch(r"\d+", text):
            raise self._error(1274, f"attribute {name} is {text!r}, not a number", element)
        value = int(text[:digits])
        if not least <= value <= most:
            raise self._error(1274, f"attribute {name} is {text}, not {least} to {most}", element)
        return value

    # -- elements

    def _child(self, draft: Draft, child: Element) -> None:
        key = child.key
        if key in _LOWER_ONLY and child.name != key:
            raise self._error(1279, f"invalid element {child.name!r} in rule {draft.id}", child)
        if key in GETTERS:
            self._text(draft, child, draft.texts.setdefault(key, TextElement(DEFAULT_KINDS.get(key, "osmatch"))))
        elif key == "field":
            draft.fields.append(self._field(draft, child))
        elif key in GROUP_KINDS:
            draft.condition_groups.append(self._condition_group(draft, child))
        elif key in ("srcip", "dstip"):
            texts, _ = draft.addresses.get(key, ([], False))
            draft.addresses[key] = ([*texts, child.text], self._negated(draft, child))
        elif key in ("if_sid", "if_group", "if_level", "if_matched_sid", "if_matched_group"):
            separator = "," if key == "if_sid" else ""
            draft.parents[key] = separator.join(one for one in (draft.parents.get(key), child.text.strip()) if one)
        elif key in _SAME:
            draft.same.append(_SAME[key])
        elif key in _DIFFERENT:
            draft.different.append(_DIFFERENT[key])
        elif key in ("same_field", "different_field", "not_same_field"):
            (draft.same_fields if key == "same_field" else draft.different_fields).append(child.text.strip().lower())
        elif key in ("same_agent", "not_same_agent"):
            self._warn(7600, f"{key} of rule {draft.id} is obsolete and has no effect", child)
        elif (special := getattr(self, f"_on_{key}", None)) is not None:
            special(draft, child)
        else:
            raise self._error(1279, f"invalid element {child.name!r} in rule {draft.id}", child)

    def _on_maxsize(self, draft: Draft, child: Element) -> None:
        raise self._error(1279, f"maxsize of rule {draft.id} is an attribute", child)

    def _on_time(self, draft: Draft, child: Element) -> None:
        try:
            draft.time = time_of_day(child.text)
        except ValueError as error:
            raise self._error(1240, f"time of rule {draft.id}: {error}", child) from None

    def _on_weekday(self, draft: Draft, child: Element) -> None:
        try:
            draft.weekday = day_of_week(child.text)
        except ValueError as error:
            raise self._error(1241, f"weekday of rule {draft.id}: {error}", child) from None

    def _on_decoded_as(self, draft: Draft, child: Element) -> None:
        draft.decoded_as.append((child.text, child.line))

    def _on_category(self, draft: Draft, child: Element) -> None:
        if child.text not in get_args(Category):
            raise self._error(1273, f"category {child.text!r} of rule {draft.id} is not known", child)
        draft.category = cast(Category, child.text)

    def _on_list(self, draft: Draft, child: Element) -> None:
        given = {name.lower(): value.decode("utf-8", "replace") for name, value in child.attributes.items()}
        name, lookup = given.pop("field", "").strip(), given.pop("lookup", "match_key")
        value = given.pop("check_value", None)
        if not name or lookup not in get_args(Lookup) or given:
            raise self._error(1274, f"list of rule {draft.id} has attributes that are not known", child)
        known = name.lower() in LIST_GETTERS
        encoded = None if value is None else value.encode()
        draft.lists.append(
            ListLookup(
                child.text.strip().removesuffix(".cdb"), name.lower() if known else name, cast(Lookup, lookup), encoded
            )
        )

    def _on_compiled_rule(self, draft: Draft, child: Element) -> None:
        draft.predicate = PREDICATES.get(child.text.strip())
        if draft.predicate is None:
            raise self._error(1274, f"compiled_rule {child.text!r} of rule {draft.id} is not known", child)

    def _on_if_matched_regex(self, draft: Draft, child: Element) -> None:
        draft.matched_regex = (draft.matched_regex or b"") + child.content

    def _on_if_matched_all(self, draft: Draft, child: Element) -> None:
        if not re.fullmatch(r"\s*[0-9]{1,6}(?:\s*,\s*[0-9]{1,6})*\s*", child.text):
            raise self._error(1274, f"if_matched_all of rule {draft.id} is not a list of ids", child)
        draft.matched_all += tuple(int(one) for one in child.text.split(","))
        value = child.attributes.get("ordered", b"no").decode("latin-1")
        draft.in_order = self._switch(value, ("no", "yes"), "ordered", draft, child)

    def _on_distinct_field(self, draft: Draft, child: Element) -> None:
        draft.distinct_fields.append(child.text.strip().lower())

    def _on_if_fts(self, draft: Draft, child: Element) -> None:
        draft.first_time = True

    def _on_check_diff(self, draft: Draft, child: Element) -> None:
        draft.check_diff = True

    def _on_global_frequency(self, draft: Draft, child: Element) -> None:
        draft.every_agent = True

    def _on_ignore(self, draft: Draft, child: Element) -> None:
        draft.ignored_fields = self._names(child)

    def _on_check_if_ignored(self, draft: Draft, child: Element) -> None:
        draft.check_ignored = self._names(child)

    def _names(self, child: Element) -> tuple[str, ...]:
        return tuple(name for name in (one.strip() for one in child.text.split(",")) if name)

    def _on_group(self, draft: Draft, child: Element) -> None:
        draft.groups += child.content

    def _on_description(self, draft: Draft, child: Element) -> None:
        draft.description = (draft.description or b"") + child.content.replace(b"\n", b" ", 1)

    def _on_info(self, draft: Draft, child: Element) -> None:
        kind = child.attributes.get("type", b"text")
        if kind not in (b"text", b"link", b"cve", b"osvdb"):
            self._warn(7600, f"info of rule {draft.id} has a type that is not known", child)
        draft.info = (draft.info or "") + child.text

    def _on_cve(self, draft: Draft, child: Element) -> None:
        draft.cve = (draft.cve or "") + child.text

    def _on_options(self, draft: Draft, child: Element) -> None:
        if child.text not in _OPTIONS:
            raise self._error(1274, f"options of rule {draft.id}: {child.text!r} is not known", child)
        draft.options.add(child.text)

    def _mitre(self, draft: Draft, block: Element, new: list[Mitre]) -> None:
        """A block of the older form, ids alone, or of the newer one: one technique with its tactic."""
        ids = [one.text.strip() for one in block.children if one.key == "id"]
        tactics = [one.text.strip() for one in block.children if one.key == "tacticid"]
        techniques = [one.text.strip() for one in block.children if one.key == "techniqueid"]
        if len(ids) + len(tactics) + len(techniques) != len(block.children):
            self._warn(7600, f"mitre of rule {draft.id} holds an element that is not known; it is left out", block)
        elif ids and not (tactics or techniques):
            draft.mitre += [Mitre(one) for one in dict.fromkeys(ids) if Mitre(one) not in draft.mitre]
        elif len(tactics) == len(techniques) == 1 and not ids:
            one = Mitre(techniques[0], tactics[0])
            new += [one] if one not in new else []
        elif block.children:
            self._warn(7600, f"mitre of rule {draft.id} mixes its forms; it is left out", block)

    # -- after all elements

    def _finish(self, draft: Draft, element: Element) -> None:
        if draft.description is None:
            raise self._error(1231, f"rule {draft.id} has no description", element)
        fields = draft.same_fields or draft.different_fields or draft.distinct_fields
        looks_back = draft.same or draft.different or fields or draft.every_agent
        if (looks_back or draft.frequency is not None) and not (draft.is_composite or draft.check_diff):
            raise self._error(1274, f"rule {draft.id} looks back, but has no if_matched element", element)
        if IN_CLUSTER in draft.options:
            self._check_in_cluster(draft, element)
        if draft.side_tree and (draft.parents or draft.is_composite or draft.check_diff or draft.first_time):
            problem = "as the root of a side tree it has neither a parent nor conditions on earlier events"
            raise self._error(1274, f"rule {draft.id}: {problem}", element)
        self._compile(draft, element)

    def _check_in_cluster(self, draft: Draft, element: Element) -> None:
        problem = ""
        different = (*draft.different, *draft.different_fields)
        compared = ((*draft.same, *draft.same_fields), different, draft.distinct_fields)
        if not draft.is_composite or draft.matched_regex is not None:
            problem = "needs if_matched_sid, if_matched_group or if_matched_all"
        elif max(map(len, compared)) > _FIELDS:
            problem = f"compares at most {_FIELDS} fields"
        if problem:
            raise self._error(1274, f"rule {draft.id}: {IN_CLUSTER} {problem}", element)

    def _compile(self, draft: Draft, element: Element) -> None:
        """Patterns and addresses."""
        grouped = [one for group in draft.condition_groups for one in group.texts()]
        for name, text in (*draft.texts.items(), *draft.fields, *grouped):
            if text.kind == "reference":
                continue
            try:
                text.expression = compile_expression(text.kind, text.content)
            except PatternError as error:
                shown = text.content.decode("utf-8", "replace")
                raise self._error(5107, f"{name} of rule {draft.id}, {shown!r}: {error}", element) from None
        for name, (addresses, _) in draft.addresses.items():
            try:
                draft.address_tests[name] = address_test(addresses)
            except ValueError as error:
                raise self._error(1237, f"{name} of rule {draft.id}: {error}", element) from None
