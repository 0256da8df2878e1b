"""Files of policies: what the checker accepts, and what it names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.matching.expression import compile_expression
from secmon.inventory.assessment.policy_files import check_policies
from secmon.inventory.assessment.policy_rules import RuleError, check_rule

POLICY = r"""
policy:
  id: own_policy
  file: own.yml
  name: Own policy
  description: For the test
  references:
    - https://example.org
variables:
  $conf: /etc/own.conf
  $conf_dir: /etc/own.d
requirements:
  title: The host has the service
  description: It is configured
  condition: any
  rules:
    - 'f:$conf'
checks:
  - id: 1
    title: Mode is set
    description: The mode
    rationale: It matters
    impact: None
    remediation: Set it
    compliance:
      - cis: ["1.1.1"]
      - pci_dss: [2.2, 7.10]
    references: [https://example.org/1]
    condition: all
    rules:
      - 'f:$conf -> r:^mode\s+\d'
      - 'd:$conf_dir -> r:.conf$ -> !r:^# && r:mode'
  - id: 2
    title: The process runs
    regex_type: pcre2
    condition: none
    rules: ['not p:own', 'c:own --status -> r:^(?i)ok$']
"""


def faults(text: str, name: str = "own.yml") -> list[str]:
    return [str(one) for one in check_policies({name: text.encode()}, compile_expression)]


def test_a_policy_without_faults() -> None:
    assert faults(POLICY) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("policy:\n", "policy: [\n", "own.yml: line"),
        ("  id: own_policy\n", "", "own.yml: Object missing required field `id` - at `$.policy`"),
        ("id: own_policy", "id: a,b", "own.yml: Expected `str` matching regex"),
        ("  - id: 1\n", "  - id: one\n", "own.yml: Expected `int`, got `str` - at `$.checks[0].id`"),
        ("condition: all", "condition: most", "own.yml: Invalid enum value 'most' - at `$.checks[0].condition`"),
        ("rationale:", "rationales:", "own.yml: Object contains unknown field `rationales` - at `$.checks[0]`"),
        ("title: The process runs", "title: A\n    title: B", "own.yml: line"),
        ("  file: own.yml", "  file: other.yml", "own.yml: policy: it says that its file is other.yml, not own.yml"),
        ("  - id: 2\n", "  - id: 1\n", "own.yml: check 1: a check of own.yml has its id too"),
        ("'f:$conf'", "'x:$conf'", "own.yml: requirements: rule 'x:$conf': it does not begin with"),
        ("r:^mode", "r:(mode", "own.yml: check 1: rule 'f:$conf -> r:(mode"),
        ("(?i)ok", "(?i", "own.yml: check 2: rule 'c:own --status -> r:^(?i"),
    ],
)
def test_a_fault_is_named_with_its_place(old: str, new: str, expected: str) -> None:
    assert old in POLICY
    (found,) = faults(POLICY.replace(old, new))
    assert found.startswith(expected)


def test_ids_are_compared_over_all_files() -> None:
    other = POLICY.replace("own.yml", "other.yml").replace("  - id: 2\n", "  - id: 3\n")
    files = {"a/own.yml": POLICY.encode(), "b/other.yml": other.encode()}
    assert [str(one) for one in check_policies(files, compile_expression)] == [
        "b/other.yml: policy: a/own.yml has its id own_policy too",
        "b/other.yml: check 1: a check of a/own.yml has its id too",
    ]


def compile_rule(rule: str) -> None:
    check_rule(rule, lambda pattern: compile_expression("osregex", pattern))


@pytest.mark.parametrize(
    "rule",
    [
        "f:/etc/ssh/sshd_config",
        "f:/a,/b -> exactly this line",
        r"f:C:\Program Files\own.ini -> r:^x",
        r"f:%WINDIR%\own.ini",
        r"not f:/etc/x -> !r:^\s*# && r:mode|other",
        r"f:/etc/x -> n:^mode\s+(\d+) compare <= 4 && !r:\s0$",
        r"f:/etc/x -> n:^mode\s+(\d+) compare != -1",
        "d:/etc",
        "d:/etc/cron.d -> own",
        "d:/etc/cron.d -> r:^own -> r:root",
        "p:sshd",
        "c:sshd -T -> r:^permitrootlogin no",
        r"r:HKEY_LOCAL_MACHINE\SYSTEM\Own",
        r"not r:HKEY_LOCAL_MACHINE\SYSTEM\Own -> Value -> 1",
    ],
)
def test_rules_that_are_right(rule: str) -> None:
    compile_rule(rule)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", "it does not begin with"),
        ("notf:/etc/x", "it does not begin with"),
        ("f:etc/x", "no path from the root"),
        ("f:/a,b", "no path from the root"),
        ("f:", "a part is empty"),
        ("f:/a ->  r:x", "a part is empty, or has a blank"),
        ("f:/a -> r:x -> r:y", "3 parts between arrows, not 1 to 2"),
        ("c:ls", "1 parts between arrows, not 2"),
        ("p:x -> y", "2 parts between arrows, not 1"),
        ("f:/a -> r:", "a pattern is empty"),
        ("f:/a -> r:x &&  && r:y", "a test is empty"),
        ("f:/a -> r:(x", "no pattern"),
        ("d:/a -> r:(x", "no pattern"),
        ("f:/a -> n:(x) compare 4", "a numeric test is"),
        ("f:/a -> n:(x) compare => 4", "a numeric test is"),
        (r"f:/a -> n:\d compare < 4", "has no group"),
    ],
)
def test_rules_that_are_wrong(rule: str, problem: str) -> None:
    with pytest.raises(RuleError, match=problem):
        compile_rule(rule)


PARTS = ["not ", "f:", "c:", "r:", "n:", "/a", " -> ", " && ", "!", " compare ", "<=", "4", "(", ")", "\\d", " "]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_any_text_is_a_rule_or_is_refused(text: str) -> None:
    try:
        compile_rule(text)
    except RuleError:
        return
    assert text.removeprefix("not ").lstrip()[:2] in ("f:", "c:", "r:")


@given(st.binary(max_size=200))
def test_any_bytes_are_checked(tmp: bytes) -> None:
    list(check_policies({"any.yml": tmp}, compile_expression))


def test_a_path_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = str(tmp_path / "own.yml")
    assert faults(POLICY, path) == []
