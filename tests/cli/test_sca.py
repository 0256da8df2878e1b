"""``secmon sca check``, and the policies of an installation."""

import json
import os
import re
from pathlib import Path

from secmon.agents.agent_conf import verify_agent_conf
from secmon.common.paths import Paths
from secmon.daemons.installation_files import create_installation_files
from tests.cli.runner import run

PAGE = Path(__file__).parents[2] / "docs/assess-hosts.md"


def test_the_policies_of_secmon() -> None:
    result = run("sca", "check")
    assert (result.exit_code, result.stdout) == (0, "policies: 14, faults: 0\n")


def test_faults_are_named(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("policy:\n  id: own\n")
    (tmp_path / "notes.txt").write_text("no policy")
    result = run("sca", "check", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/own.yml: Object missing required field")
    assert result.stdout.endswith("policies: 1, faults: 1\n")
    shown = json.loads(run("sca", "check", tmp_path, "--json").stdout)["data"]
    assert (shown["files"], shown["faults"][0]["file"]) == (1, f"{tmp_path}/own.yml")


def test_a_folder_without_policies(tmp_path: Path) -> None:
    result = run("sca", "check", tmp_path)
    assert (result.exit_code, "no policies found" in result.output) == (1, True)


def test_a_pipe_in_the_folder_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.yml")
    result = run("sca", "check", tmp_path)
    assert (result.exit_code, result.stderr) == (1, f"Error: {tmp_path}/own.yml: it is not a regular file\n")


def test_an_installation_has_the_policies(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "node")
    create_installation_files(paths)
    assert run("sca", "check", paths.root / "ruleset/sca").stdout == "policies: 14, faults: 0\n"


def test_the_page_shows_what_agents_and_secmon_accept(tmp_path: Path) -> None:
    fences = dict(re.findall(r"```(xml|yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert verify_agent_conf(fences["xml"].encode(), "agent.conf").problems == []
    (tmp_path / "door.yml").write_text(fences["yaml"])
    assert run("sca", "check", tmp_path).stdout == "policies: 1, faults: 0\n"
