"""The files of an import: what replaces what, and what stays."""

import json
from pathlib import Path

import pytest

from secmon.cluster.node import Changed, Finding, RulesetFile
from secmon.common.paths import Paths
from secmon.engine.catalogue.rule_items import rule_items
from secmon.engine.catalogue.strict_xml import check
from secmon.engine.ruleset.sources import compile_installation
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.importers.sigma import IDS, RULES, ImportRefused, import_sigma
from secmon.importers.sigma.ids import FIRST, LAST, IdMap, IdMapError

CONFIGURATION = """<ossec_config><ruleset>
<decoder_dir>ruleset/decoders</decoder_dir><decoder_dir>etc/decoders</decoder_dir>
<rule_dir>ruleset/rules</rule_dir><rule_dir>etc/rules</rule_dir>
</ruleset></ossec_config>
"""
PRODUCT = Path(__file__).parents[3] / "ruleset"

RULE = """title: {title}
id: 5f113a8f-8b61-41ca-b90f-{number:012d}
author: Jo <jo@example.org>
license: MIT
level: {level}
tags: [attack.execution, attack.t1059.001, cve.2024-12345]
references: [https://example.org/a]
logsource: {{product: windows, category: process_creation}}
detection:
  selection: {{Image|endswith: '\\{number}.exe'}}
  condition: selection
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """An installation with a few of the default files."""
    root = tmp_path / "node"
    for kind, name in (("rules", "0000-roots_rules.xml"), ("decoders", "9000-json_decoders.xml")):
        (root / "ruleset" / kind).mkdir(parents=True)
        (root / "etc" / kind).mkdir(parents=True)
        (root / "ruleset" / kind / name).write_bytes((PRODUCT / kind / name).read_bytes())
    (root / "etc/ossec.conf").write_text(CONFIGURATION)
    (root / "etc/internal_options.conf").touch()
    return Paths(root)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "sigma"
    folder.mkdir()
    for number in range(3):
        write(folder, number)
    return folder


def write(folder: Path, number: int, title: str = "", level: str = "high") -> None:
    text = RULE.format(title=title or f"Rule {number}", number=number, level=level)
    (folder / f"{number}.yml").write_text(text)


def never(changed: Changed) -> Finding | None:
    return Finding(True, "broken", RULES)


def ids(paths: Paths) -> dict[str, int]:
    found: dict[str, int] = json.loads((paths.root / IDS).read_bytes())["ids"]
    return found


def test_rules_are_loaded_with_what_sigma_says_of_them(paths: Paths, rules: Path) -> None:
    report = import_sigma(rules, paths, RulesetValidator(paths).blocking_error)
    assert (report.written, report.counts()) == (True, {"imported": 3})
    made = compile_installation(paths)
    rule = made.rules.by_id[report.lines[1].id or 0]
    assert (rule.level, rule.description, rule.file) == (11, b"Sigma: Rule 1", RULES)
    assert [one.technique for one in rule.mitre] == ["T1059.001"]
    assert rule.groups == b"sigma,attack.execution,"
    assert rule.cve == "CVE-2024-12345"
    assert rule.info == (
        "Sigma rule 5f113a8f-8b61-41ca-b90f-000000000001, by Jo \u2039jo@example.org>, licence MIT, https://example.org/a"
    )
    assert not made.messages


def test_ids_are_kept_and_never_given_again(paths: Paths, rules: Path) -> None:
    validate = RulesetValidator(paths).blocking_error
    first = {line.uuid: line.id for line in import_sigma(rules, paths, validate).lines}
    assert all(FIRST <= (one or 0) <= LAST for one in first.values())
    (rules / "0.yml").unlink()
    write(rules, 7)
    write(rules, 1, "Another title")
    second = import_sigma(rules, paths, validate)
    found = {line.uuid: line for line in second.lines}
    removed = found["5f113a8f-8b61-41ca-b90f-000000000000"]
    assert (removed.result, removed.title) == ("removed", "Rule 0")
    assert {found[uuid].id for uuid in first} == set(first.values())
    assert found["5f113a8f-8b61-41ca-b90f-000000000007"].id not in first.values()
    assert removed.id not in compile_installation(paths).rules.by_id
    write(rules, 0)
    third = {line.uuid: line.id for line in import_sigma(rules, paths, validate).lines}
    assert third.items() >= first.items()


def test_a_second_import_of_the_same_changes_nothing(paths: Paths, rules: Path) -> None:
    validate = RulesetValidator(paths).blocking_error
    import_sigma(rules, paths, validate)
    before = [(paths.root / name).stat().st_mtime_ns for name in (RULES, IDS)]
    assert import_sigma(rules, paths, validate).written is False
    assert [(paths.root / name).stat().st_mtime_ns for name in (RULES, IDS)] == before


def test_a_dry_run_writes_nothing(paths: Paths, rules: Path) -> None:
    report = import_sigma(rules, paths, RulesetValidator(paths).blocking_error, dry_run=True)
    assert (report.written, report.counts()) == (False, {"imported": 3})
    assert not (paths.root / RULES).exists()
    assert not (paths.root / IDS).exists()


def test_rules_with_which_the_ruleset_would_not_load_leave_the_previous_ones(paths: Paths, rules: Path) -> None:
    import_sigma(rules, paths, RulesetValidator(paths).blocking_error)
    before = (paths.root / RULES).read_bytes(), (paths.root / IDS).read_bytes()
    write(rules, 8)
    with pytest.raises(ImportRefused, match="would not load"):
        import_sigma(rules, paths, never)
    assert ((paths.root / RULES).read_bytes(), (paths.root / IDS).read_bytes()) == before


def test_without_any_rule_the_previous_ones_stay(paths: Paths, rules: Path, tmp_path: Path) -> None:
    validate = RulesetValidator(paths).blocking_error
    import_sigma(rules, paths, validate)
    before = (paths.root / RULES).read_bytes()
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.yml").write_text("title: x")
    for nothing in ("empty", "bad.yml"):
        with pytest.raises(ImportRefused):
            import_sigma(tmp_path / nothing, paths, validate)
    assert (paths.root / RULES).read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version":2,"ids":{}}',
        b'{"version":1,"ids":{"a":300000,"b":300000}}',
        b'{"version":1,"ids":{"a":5}}',
    ],
)
def test_a_damaged_file_of_ids_is_not_replaced(content: bytes, paths: Paths, rules: Path) -> None:
    (paths.root / IDS).write_bytes(content)
    with pytest.raises(ImportRefused, match="file of ids is damaged"):
        import_sigma(rules, paths, RulesetValidator(paths).blocking_error)
    assert (paths.root / IDS).read_bytes() == content


def test_there_is_an_end_of_ids() -> None:
    full = IdMap({"x": LAST - 1})
    assert full["y"] == LAST
    with pytest.raises(IdMapError, match="no id is left"):
        full["z"]


def test_the_file_is_one_that_the_api_can_show(paths: Paths, rules: Path) -> None:
    other = "other:\n    - Image: 'a<b & c'\n    - CommandLine|re: '(?<!x)<a>'\n  condition: selection or not other"
    text = RULE.format(title="A & B <c> $(d)", number=5, level="low").replace("condition: selection", other)
    (rules / "odd.yml").write_text(text)
    report = import_sigma(rules, paths, RulesetValidator(paths).blocking_error)
    number = next(line.id for line in report.lines if line.place == "odd.yml")
    content = (paths.root / RULES).read_bytes()
    check(content)
    items = rule_items(RulesetFile("0990-sigma_rules.xml", "etc/rules", "enabled"), content)
    item = next(one for one in items if one["id"] == number)
    assert item["description"] == "Sigma: A & B \u2039c> $ (d)"
    assert item["details"]["any"]["none"]["win.eventdata.commandLine"] == {
        "pattern": "(*nlb:x)\\x3ca>",
        "plain": "yes",
        "type": "pcre2",
    }


def test_exceptions_of_the_operator_are_children(paths: Paths, rules: Path) -> None:
    validate = RulesetValidator(paths).blocking_error
    number = import_sigma(rules, paths, validate).lines[0].id
    exception = f'<rule id="100001" level="0"><if_sid>{number}</if_sid><description>x</description></rule>'
    (paths.root / "etc/rules/local_rules.xml").write_text(f'<group name="local,">{exception}</group>')
    made = compile_installation(paths)
    assert made.rules.by_id[number or 0].children == [made.rules.by_id[100001]]
