"""Findings about a ruleset on disk."""

from pathlib import Path

from secmon.common.paths import Paths
from secmon.daemons.installation_files import create_installation_files
from secmon.engine.ruleset.validation import RulesetValidator


def test_findings_name_files_and_lines(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "node")
    create_installation_files(paths)
    validator = RulesetValidator(paths)
    assert validator.findings() == []
    file = paths.etc / "rules/local.xml"
    file.write_bytes(
        b"<group name='a'>\n<rule id='100001' level='3'><if_sid>99999</if_sid><description>x</description></rule></group>"
    )
    found = validator.findings()
    assert {(one.error, one.file) for one in found} == {(False, "etc/rules/local.xml")}
    assert "line 2" in found[0].text
    file.write_bytes(
        b"<group name='a'><rule id='100001' level='3'><regex>(</regex><description>x</description></rule></group>"
    )
    [broken] = validator.findings()
    assert (broken.error, broken.file) == (True, "etc/rules/local.xml")
    paths.main_config.write_text("<ossec_config>")
    [unreadable] = validator.findings()
    assert unreadable.error
