"""``secmon verify-agent-conf``."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.common.paths import Paths
from secmon.daemons.installation_files import create_installation_files


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("verify-agent-conf", *arguments))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "n")
    create_installation_files(paths)
    return paths


def test_a_pipe_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agent.conf")
    result = run(str(tmp_path / "agent.conf"))
    assert (result.exit_code, "it is not a regular file" in result.stdout) == (1, True)


def test_files_that_are_named(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text("<agent_config><labels><label key='a'>b</label></labels></agent_config>")
    bad.write_text("<agent_config>\n<syscheck><disabled>x</disabled></syscheck><global/></agent_config>")
    assert (run(str(good)).exit_code, run(str(good)).stdout) == (0, f"{good}: valid\n")
    result = run(str(good), str(bad))
    assert result.exit_code == 1
    assert f"{bad}:2: syscheck.disabled: 'x' is not allowed; allowed: yes, no" in result.stdout
    assert "agents do not read this section" in result.stderr
    shown = json.loads(run("--json", str(good), str(bad)).stdout)["data"]
    assert [each["valid"] for each in shown] == [True, False]
    assert {name: shown[1]["problems"][0][name] for name in ("line", "section", "option")} == {
        "line": 2, "section": "syscheck", "option": "disabled",
    }  # fmt: skip


def test_a_reference_that_xml_forbids(tmp_path: Path) -> None:
    file, text = tmp_path / "a.conf", "<agent_config>\n<labels><label key='a'>&#65;{}</label></labels></agent_config>"
    for fine in ("", "&#x10FFFF;", "<!-- &#0; -->"):
        file.write_text(text.format(fine))
        assert run(str(file)).exit_code == 0
    for wrong in ("&#0;", "&#x1F;", "&#xd800;", f"&#{'9' * 9000};"):
        file.write_text(text.format(wrong))
        result = run(str(file))
        assert (result.exit_code, result.stdout.startswith(f"{file}:2: ")) == (1, True)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    result = run(str(tmp_path / "absent"))
    assert (result.exit_code, "No such file" in result.stdout) == (1, True)


def test_all_groups(paths: Paths) -> None:
    (paths.shared / "web").mkdir()
    (paths.shared / "web/agent.conf").write_text("<agent_config><x/></agent_config>")
    (paths.shared / "empty").mkdir()
    result = run("--root", str(paths.root))
    assert result.exit_code == 1
    assert [line.split("/shared/")[1].split(":")[0] for line in result.stdout.splitlines()] == [
        "default/agent.conf", "web/agent.conf",
    ]  # fmt: skip


def test_no_installation(tmp_path: Path) -> None:
    assert run("--root", str(tmp_path)).exit_code == 1
