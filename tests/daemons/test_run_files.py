"""Run files, and the states of daemons that they show, by the table of manager.md 8.1."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.daemon_names import DAEMONS
from secmon.common.paths import Paths
from secmon.daemons.run_files import RunFiles, daemon_states, lives, pid_files, process_start

APID = "secmon-apid"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "var/run").mkdir(parents=True)
    return Paths(tmp_path)


@pytest.fixture
def dead() -> int:
    """Pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_all_daemons_in_order_and_stopped_on_a_node_that_never_ran(tmp_path: Path) -> None:
    states = daemon_states(Paths(tmp_path))
    assert tuple(states) == DAEMONS
    assert len(states) == 17
    assert set(states.values()) == {"stopped"}


@given(
    failed=st.booleans(), restart=st.booleans(), start=st.booleans(), pid=st.sampled_from(["none", "dead", "living"])
)
@settings(max_examples=50)
def test_precedence(
    tmp_path_factory: pytest.TempPathFactory, failed: bool, restart: bool, start: bool, pid: str
) -> None:
    paths = Paths(tmp_path_factory.mktemp("node"))
    paths.run.mkdir(parents=True)
    markers = {
        f"{APID}.failed": failed,
        ".restart": restart,
        f"{APID}.start": start,
        f"{APID}-999999999.pid": pid == "dead",
    }
    for name, present in markers.items():
        if present:
            (paths.run / name).touch()
    if pid == "living":
        RunFiles(paths.run).write_pid(APID)
    steps = [(failed, "failed"), (restart, "restarting"), (start, "starting"), (pid == "dead", "failed")]
    expected = next((state for holds, state in [*steps, (pid == "living", "running")] if holds), "stopped")
    assert daemon_states(paths)[APID] == expected
    assert daemon_states(paths)["secmon-db"] == ("restarting" if restart else "stopped")


def test_one_living_process_of_several_is_enough(paths: Paths, dead: int) -> None:
    RunFiles(paths.run).write_pid(APID)
    (paths.run / f"{APID}-{dead}.pid").write_text(f"{dead}\n1\n")
    assert daemon_states(paths)[APID] == "running"


def test_names_with_a_common_prefix_are_distinguished(paths: Paths) -> None:
    RunFiles(paths.run).write_pid("secmon-dbd")
    states = daemon_states(paths)
    assert (states["secmon-dbd"], states["secmon-db"]) == ("running", "stopped")


def test_who_does_the_job_of_another_is_its_state(paths: Paths) -> None:
    run = RunFiles(paths.run)
    run.write_pid("secmon-modulesd")
    states = daemon_states(paths)
    for daemon in ("secmon-execd", "secmon-monitord", "secmon-modulesd"):
        assert states[daemon] == "running"
    assert states["secmon-logcollector"] == "stopped"
    run.write_pid("secmon-analysisd")
    assert daemon_states(paths)["secmon-logcollector"] == "running"


def test_reused_pid_is_not_the_daemon(paths: Paths) -> None:
    (paths.run / f"{APID}-{os.getpid()}.pid").write_text(f"{os.getpid()}\n12\n")
    assert daemon_states(paths)[APID] == "failed"


def test_pid_file_without_a_start_counts_by_its_pid(paths: Paths) -> None:
    (paths.run / f"{APID}-{os.getpid()}.pid").write_text(f"{os.getpid()}\n")
    assert daemon_states(paths)[APID] == "running"


def test_zombie_does_not_live(paths: Paths) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    file = RunFiles(paths.run).write_pid(APID, process.pid)
    assert lives(file)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert process_start(process.pid) is None
    assert daemon_states(paths)[APID] == "failed"
    process.communicate()


def test_reading_states_changes_nothing(paths: Paths, dead: int) -> None:
    file = paths.run / f"{APID}-{dead}.pid"
    file.touch()
    daemon_states(paths)
    assert file.exists()


@pytest.mark.parametrize("name", ["secmon-apid.pid", "secmon-apid-x.pid", "other-1.pid", "secmon-apid-1.pid~"])
def test_other_names_are_no_pid_files(paths: Paths, name: str) -> None:
    (paths.run / name).touch()
    assert pid_files(paths.run) == {}
    assert not lives(paths.run / name)


def test_life_of_a_daemon(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.starting(APID)
    assert names(tmp_path) == {f"{APID}.start"}
    file = run.write_pid(APID)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    run.running(APID)
    assert names(tmp_path) == {f"{APID}-{os.getpid()}.pid"}
    run.failed(APID)
    assert names(tmp_path) == {f"{APID}-{os.getpid()}.pid", f"{APID}.failed"}
    run.remove_pid(APID)
    run.stopped(APID)
    assert names(tmp_path) == set()


def test_start_forgets_the_failure_and_dead_processes_before_it(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.failed(APID)
    (tmp_path / f"{APID}-999999999.pid").touch()
    (tmp_path / "secmon-clusterd-999999999.pid").touch()
    run.starting(APID)
    assert names(tmp_path) == {f"{APID}.start", "secmon-clusterd-999999999.pid"}


def test_everything_that_an_earlier_supervisor_left_is_cleared(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.failed(APID)
    run.starting("secmon-clusterd")
    run.restarting(True)
    (tmp_path / f"{APID}-999999999.pid").touch()
    living = run.write_pid(APID)
    run.clear_all()
    assert names(tmp_path) == {living.name}


def test_pid_file_is_put_back(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    file = run.write_pid(APID)
    before = file.read_text()
    file.unlink()
    run.tend_pid(APID)
    assert file.read_text() == before


def test_folders_in_the_place_of_run_files_are_cleared(tmp_path: Path) -> None:
    for name in ("secmon-apid-1.pid", "secmon-apid.start", "secmon-apid.failed", ".restart"):
        (tmp_path / name / "within").mkdir(parents=True)
    RunFiles(tmp_path).clear_all()
    assert names(tmp_path) == set()
