"""The drill of the containers, with a stand-in for the engine: when it says what, and what it waits for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import REPOSITORY
from tests.waiting import LIMIT_SECONDS, wait_until

both = pytest.mark.parametrize("drill", ["drill.py", "ha_drill.py"])

ENGINE = """#!/bin/sh
cd "${0%/*}"
echo "$*" >>journal
case "$*" in
*" build") while [ ! -e may-build ]; do sleep 0.05; done ;;
"image inspect"*) [ -e built ] ;;
*" up "*) exit 1 ;;
esac
"""


@both
def test_steps_are_shown_at_once_and_images_are_waited_for(drill: str, tmp_path: Path) -> None:
    engine = tmp_path / "docker"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    journal = tmp_path / "journal"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, str(REPOSITORY / "deploy" / drill)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begin           the images are built\n"
        (tmp_path / "may-build").touch()
        wait_until(lambda: journal.read_text().count("image inspect") > 1, what="it looks for the images")
        assert " up " not in journal.read_text()
        (tmp_path / "built").touch()
        said = run.stdout.read()
        assert run.wait(LIMIT_SECONDS) == 1
    assert "pass" in said.splitlines()[0]
    assert " up -d" in journal.read_text()
    steps = [line for line in said.splitlines() if line.startswith("begin")]
    assert len(steps) == 2  # the cluster did not come up: all there is to do is to remove it
    assert "1 steps failed." in said


@both
def test_a_failed_build_ends_the_drill(drill: str, tmp_path: Path) -> None:
    engine = tmp_path / "docker"
    engine.write_text('#!/bin/sh\ncase "$*" in *" build") echo broken >&2; exit 1 ;; esac\n')
    engine.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, REPOSITORY / "deploy" / drill],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[:2]] == ["begin", "FAIL"]
    assert "broken" in done.stdout
    assert done.stdout.count("begin") == 1
