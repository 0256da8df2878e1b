"""Translated rules fire exactly when the detection of Sigma holds: by examples, and by random ones with a model."""

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.importers.sigma import model
from tests.importers.sigma.kit import SYSMON, Translated, as_json, line, rule, windows

A, B, C = {"Image|endswith": "\\a.exe"}, {"CommandLine|contains": "bee"}, {"User": "cat"}
CONDITIONS = [
    "a", "not a", "a and b", "a or b", "a and not b", "not a and not b", "not (a or b)", "not (a and b)",
    "a and (b or c)", "a or b and c", "(a or b) and c", "not not a", "1 of them", "all of them", "any of them",
    "1 of a*", "all of a*", "not 1 of b*", "a and not (b and not c)", "((a)) or not (c)",
    "a and not 1 of c*", "not (a and b) or c",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_form_of_a_condition(condition: str) -> None:
    detection = {"a": A, "b": B, "c": C, "condition": condition}
    translated = Translated(rule(detection))
    for bits in range(8):
        data = {"Other": "x"}
        data |= {"Image": "C:\\a.exe" if bits & 1 else "C:\\b.exe"}
        data |= {"CommandLine": "a bee"} if bits & 2 else {}
        data |= {"User": "cat" if bits & 4 else "dog"}
        expected = model.matches(detection, data)
        assert translated.fires(windows(SYSMON, 1, **data)) is expected, (condition, data)
        assert translated.fires(as_json(SYSMON, 1, **data)) is expected


def test_a_list_of_conditions_is_a_disjunction() -> None:
    translated = Translated(rule({"a": A, "b": B, "condition": ["a", "b"]}))
    assert translated.fires(windows(CommandLine="bee"))
    assert not translated.fires(windows(CommandLine="ant"))


def test_a_rule_fires_for_its_log_source_only() -> None:
    translated = Translated(rule({"selection": B}))
    assert translated.fires(windows(CommandLine="bee"))
    assert translated.fires(windows("Security", 4688, CommandLine="bee"))
    assert not translated.fires(windows("Security", 4689, CommandLine="bee"))
    assert not translated.fires(windows(SYSMON, 11, CommandLine="bee"))
    assert not translated.fires(line("bee"))


def test_a_field_has_the_name_that_the_event_gives_it() -> None:
    translated = Translated(rule({"selection": A}))
    assert translated.fires(windows("Security", 4688, NewProcessName="C:\\a.exe"))
    assert not translated.fires(windows("Security", 4688, NewProcessName="C:\\b.exe", ParentProcessName="C:\\a.exe"))


def test_conditions_of_many_levels_are_reported() -> None:
    levels = {"a": A, "b": B, "condition": "not (b and " * 20 + "a" + ")" * 20}
    assert Translated(rule(levels)).reason() == "its condition has more than 15 levels"
    allowed = {"a": A, "b": B, "condition": "not (b and " * 7 + "a" + ")" * 7}
    assert Translated(rule(allowed)).lines[0].result == "imported"


@pytest.mark.parametrize(
    ("detection", "reason"),
    [
        ({"selection": {"CommandLine": "*"}, "condition": "selection or not selection"}, ""),
        ({"selection": {"x|nope": "y"}}, "modifier"),
        ({"selection": B, "condition": "other"}, "other"),
        ({"selection": B, "condition": "(selection"}, ""),
        ({"selection": B, "condition": "1 of nothing*"}, ""),
    ],
)
def test_conditions_without_a_meaning_are_reported(detection: dict[str, Any], reason: str) -> None:
    translated = Translated(rule(detection))
    if translated.lines[0].result != "imported":
        assert reason in translated.reason()
        assert not translated.fires(windows(CommandLine="bee"))


# -- random detections against the model

CHARACTERS = st.sampled_from([*"abAB \\|^$!<>&'\"*?-/é漢.%(1"])
TEXTS = st.text(CHARACTERS, min_size=1, max_size=4)
LITERALS = TEXTS.map(lambda text: text.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?"))
PATTERNS = st.lists(st.one_of(LITERALS, st.sampled_from(["*", "?"])), min_size=1, max_size=3).map("".join)
FIELDS = st.sampled_from(["Image", "CommandLine", "User"])
SIMPLE = st.sampled_from(["", "|contains", "|startswith", "|endswith", "|contains|cased", "|cased"])


def _items(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, st.lists(values, min_size=1, max_size=3))


ITEMS = st.one_of(
    st.tuples(FIELDS, SIMPLE, _items(PATTERNS)),
    st.tuples(FIELDS, st.just("|contains|all"), st.lists(PATTERNS, min_size=2, max_size=3)),
    st.tuples(FIELDS, st.just(""), st.sampled_from([None, "", 5, [None, "a"]])),
    st.tuples(FIELDS, st.just("|exists"), st.booleans()),
    st.tuples(FIELDS, st.sampled_from(["|lt", "|lte", "|gt", "|gte"]), st.integers(-2, 20)),
    st.tuples(FIELDS, st.sampled_from(["|re", "|re|i"]), st.sampled_from(["a+b", "^a", "[ab]$", r"\\", "a|b", r"\."])),
)
MAPS = st.lists(ITEMS, min_size=1, max_size=2).map(lambda some: {name + mods: value for name, mods, value in some})
SEARCHES = st.one_of(MAPS, st.lists(MAPS, min_size=1, max_size=2), st.lists(LITERALS, min_size=1, max_size=2))
NAMES = ("s_one", "s_two", "f_one")
OPERANDS = st.sampled_from([*NAMES, "1 of s_*", "all of s_*", "1 of f_*", "all of them", "1 of them"])
TREES = st.recursive(
    OPERANDS,
    lambda below: st.one_of(
        below.map(lambda one: f"not ({one})"),
        st.tuples(below, st.sampled_from(["and", "or", "and not"]), below).map(
            lambda parts: "({} {} {})".format(*parts)
        ),
    ),
    max_leaves=5,
)
DETECTIONS = st.fixed_dictionaries({**dict.fromkeys(NAMES, SEARCHES), "condition": TREES})
VALUES = st.one_of(TEXTS, st.integers(-3, 21).map(str), st.sampled_from(["ab", "AB", "a b", "x\\ab"]))
EVENTS = st.dictionaries(FIELDS, VALUES.filter(lambda text: text == text.rstrip() and text != "-"), max_size=3)


@settings(max_examples=150, deadline=None)
@given(DETECTIONS, st.lists(EVENTS, min_size=1, max_size=4))
@example(
    {"s_one": {"Image": "a*\\*"}, "s_two": ["a"], "f_one": {"User|contains": "é"}, "condition": "not (1 of them)"},
    [{"Image": "aé*", "User": "É"}],
)
@example({"s_one": ["\\\\1"], "s_two": ["1"], "f_one": ["1"], "condition": "s_one"}, [{"Image": "\\1"}])
def test_a_translated_rule_fires_if_and_only_if_the_detection_holds(
    detection: dict[str, Any], events: list[dict[str, str]]
) -> None:
    translated = Translated(rule(detection))
    result = translated.lines[0]
    assume(result.result == "imported" or "true" in result.reason)
    for event in events:
        expected = model.matches(detection, event)
        if result.result != "imported":
            assert expected is ("always" in result.reason)
            continue
        for message in (windows(SYSMON, 1, **event), as_json(SYSMON, 1, **event)):
            assert translated.fires(message) is expected, (detection, event)
