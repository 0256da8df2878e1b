"""The default ruleset and its cases: every file of cases holds, and every rule has a hit and a near miss."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from secmon.engine.ruleset.case_files import Result, find_files, read_file, run_case
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.ruleset_xml import Element, parse
from tests.ruleset.default import default_ruleset, default_sources
from tests.ruleset.test_many_hosts import OF_MANY_HOSTS

HERE = Path(__file__).parent
FILES = list(find_files((HERE,)))
COMPLIANCE = re.compile(r"(?:pci_dss|gdpr|hipaa|nist_800_53|tsc)_[\w.]+")
TECHNIQUE = re.compile(r"T\d{4}(?:\.\d{3})?")
PARENTS = ("if_sid", "if_matched_sid")


@pytest.fixture
def compiled() -> Ruleset:
    return default_ruleset()


@cache
def results(file: Path) -> tuple[Result, ...]:
    return tuple(run_case(default_ruleset(), case) for case in read_file(file, file.name))


def elements() -> Iterator[tuple[str, Element]]:
    """Every rule of the files, with its file."""
    for file, data in default_sources().rules:
        for group in parse(data):
            for rule in group.children:
                yield file, rule


def texts(rule: Element, name: str) -> list[str]:
    return [one.content.decode() for one in rule.children if one.key == name]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases_of_a_file(file: Path) -> None:
    wrong = [f"{one.case.file}:{one.case.line}: {one.case.key}: {one.problem}" for one in results(file)]
    assert [line for line, one in zip(wrong, results(file), strict=True) if not one.right] == []


def test_loads_without_a_word(compiled: Ruleset) -> None:
    assert [str(one) for one in compiled.messages] == []
    assert len(compiled.rules.by_id) >= 300


def test_every_rule_has_a_hit_and_a_near_miss(compiled: Ruleset) -> None:
    hits: set[str] = set()
    misses: set[str] = set()
    for one in (one for file in FILES for one in results(file)):
        if one.case.passes:
            hits.add(one.case.expected.rule)
        elif one.found.rule != one.case.expected.rule:  # the level or the decoder alone make no near miss
            misses.add(one.case.expected.rule)
    rules = {str(number) for number, rule in compiled.rules.by_id.items() if not rule.noalert}  # nothing ends at those
    rules -= set(map(str, OF_MANY_HOSTS))
    assert rules - hits == set()
    assert rules - misses == set()


def test_ids_are_unique_and_clear_of_others() -> None:
    """Ids below 100,000 are those that other tools expect; 100,000 to 120,000 are the users'."""
    ids = [int(rule.attributes["id"]) for _, rule in elements()]
    assert len(ids) == len(set(ids))
    shared = {*range(1, 8), *range(200, 300), *range(501, 600), *range(750, 753)}
    shared |= {*range(19000, 19016), *range(23501, 23508), *range(87401, 87415)}
    assert [one for one in ids if one not in shared and not 200_000 <= one < 300_000] == []


def test_descriptions_and_groups(compiled: Ruleset) -> None:
    for rule in compiled.rules.by_id.values():
        assert rule.description.strip(), rule.id
        assert rule.groups.endswith(b","), rule.id


def test_parents_lists_and_groups_exist(compiled: Ruleset) -> None:
    """The loader warns of parents that are missing; here each of several must be there, too."""
    known = {str(number) for number in compiled.rules.by_id}
    groups = set(b"".join(rule.groups for rule in compiled.rules.by_id.values()).decode().split(","))
    for file, rule in elements():
        place = (file, rule.attributes["id"])
        for name in PARENTS:
            assert set(re.findall(r"\d+", "".join(texts(rule, name)))) <= known, place
        for name in ("if_group", "if_matched_group"):
            wanted = {group for text in texts(rule, name) for group in text.split(",") if group}
            assert wanted <= groups, place
        assert set(texts(rule, "list")) <= set(compiled.lists), place


def test_composites_count_each_alert_alike(compiled: Ruleset) -> None:
    """An alert counts once for each place of its rule: those of Windows twice, and no agent sends others with them."""
    for rule in compiled.rules.by_id.values():
        for composite in () if rule.composites_by_id else rule.composites_by_group:
            assert composite is not rule, f"{rule.id} counts its own alerts"
            needed = (composite.composite.frequency if composite.composite else 0) - 1
            both_of_windows = all("windows" in one.file for one in (rule, composite))
            assert needed == 1 or "windows" not in composite.file or needed % 2 == 0, composite.id
            assert needed == 1 or rule.occurrences == (2 if both_of_windows else 1) or "windows" in rule.file, rule.id


def test_compliance_and_techniques(compiled: Ruleset) -> None:
    for rule in compiled.rules.by_id.values():
        tagged = [one for one in rule.groups.decode().split(",") if re.match(r"pci|gdpr|hipaa|nist|tsc", one)]
        assert all(COMPLIANCE.fullmatch(one) for one in tagged), rule.id
        assert all(TECHNIQUE.fullmatch(one.technique) for one in rule.mitre), rule.id
        assert tagged or rule.level == 0, rule.id


def test_every_decoder_is_used_by_a_rule_and_a_case(compiled: Ruleset) -> None:
    roots = {one.name for one in (*compiled.decoders.with_program, *compiled.decoders.without_program)}
    named = {text for _, rule in elements() for text in texts(rule, "decoded_as")}
    named.add("web-accesslog")  # found by its category
    found = {one.found.decoder for file in FILES for one in results(file)}
    assert roots - named == set()
    assert roots - found == set()


def test_public_ids_of_agent_events(compiled: Ruleset) -> None:
    """Texts of agents have rules that other tools know by their ids (agent-link.md 6.10, 11.1)."""
    expected = {202, 203, 204, 205, 220, 222, 501, 503, 504, 505, 506}
    assert expected <= compiled.rules.by_id.keys()


def test_files_are_xml_that_any_reader_takes() -> None:
    """The API shows files as JSON (analysis-api.md 2.6), which takes well-formed XML."""
    sources = default_sources()
    for _, data in (*sources.decoders, *sources.rules):
        ElementTree.fromstring(b"<files>" + data + b"</files>")


def test_near_misses_end_at_related_rules(compiled: Ruleset) -> None:
    """Most near misses get as far as a rule or a decoder; one that nothing knows would prove little."""
    missed = [one for file in FILES for one in results(file) if not one.case.passes]
    near = [one for one in missed if one.found.decoder]
    assert len(near) >= 0.85 * len(missed)
