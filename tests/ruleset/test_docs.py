"""The examples of docs/write-rules.md do what the text says."""

import re

import pytest

from secmon.engine.ruleset.case_files import read_cases, run_case
from secmon.engine.ruleset.sources import Sources, compile_sources
from tests.folders import REPOSITORY
from tests.ruleset.default import default_ruleset, default_sources

TEXT = (REPOSITORY / "docs/write-rules.md").read_text()


@pytest.fixture(scope="module")
def examples() -> list[str]:
    """The blocks of XML and cases, without their indentation."""
    found = re.findall(r"^( *)```(?:xml|ini)\n(.*?)^ *```", TEXT, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"(?m)^{indent}", "", block) for indent, block in found]


def with_default(decoders: str, *rules: str) -> Sources:
    sources = default_sources()
    sources.decoders.append(("etc/decoders/x.xml", decoders.encode()))
    sources.rules += [(f"etc/rules/x{number}.xml", text.encode()) for number, text in enumerate(rules)]
    return sources


def test_step_by_step(examples: list[str]) -> None:
    decoders, rules, cases, host_rules, host_cases, overwrite, beyond = examples
    compiled = compile_sources(with_default(decoders, rules, host_rules, overwrite, beyond))
    assert [str(one) for one in compiled.messages] == []
    shown = read_cases(cases, "doc") + read_cases(host_cases, "doc")
    assert [run_case(compiled, case).problem for case in shown] == ["", "", ""]
    assert compiled.rules.by_id[210021].level == 0


def test_ids_are_those_of_the_table() -> None:
    table = re.findall(r"^\| ([\d to,]+) \|", TEXT.split("## Ids")[1], re.MULTILINE)
    known = set()
    for row in table:
        for part in row.split(","):
            low, _, high = part.strip().partition(" to ")
            width = 1000 if not high and int(low) % 1000 == 0 else 1
            known |= set(range(int(low), int(high or int(low) + width - 1) + 1))
    assert default_ruleset().rules.by_id.keys() - known == set()
