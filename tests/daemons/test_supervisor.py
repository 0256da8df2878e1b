"""The supervisor, with real processes."""

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from secmon.cli import main
from secmon.common.errors import SecmonError
from secmon.daemons.control_sockets import SupervisorClient, daemon_socket
from secmon.daemons.run_files import process_start
from secmon.daemons.supervisor_lock import SupervisorLock
from tests.daemons.conftest import ToyNode
from tests.waiting import LIMIT_SECONDS, wait_until

APID, CLUSTERD = "secmon-apid", "secmon-clusterd"


def test_start_at_once_and_stop_in_reverse_leaving_nothing(running: ToyNode) -> None:
    pids = [running.pid(APID), running.pid(CLUSTERD)]
    assert running.state(APID) == running.state(CLUSTERD) == "running"
    assert running.end() == 0
    starts, stops = running.journal()[:2], running.journal()[2:]
    assert sorted(starts) == [(APID, "start"), (CLUSTERD, "start")]
    assert stops == [(CLUSTERD, "stop"), (APID, "stop")]
    assert running.leftovers() == []
    assert [process_start(pid) for pid in pids if pid] == [None, None]
    assert running.state(APID) == "stopped"


def test_killed_daemon_is_restarted_and_its_state_is_right_meanwhile(running: ToyNode) -> None:
    first = running.pid(APID)
    assert first is not None
    before = time.monotonic()
    os.kill(first, signal.SIGKILL)
    seen = set()
    while running.pid(APID) in {first, None} or running.state(APID) != "running":
        alive = process_start(first) is not None
        state = running.state(APID)
        assert alive or state != "running" or running.pid(APID) not in {first, None}
        seen.add(state)
        assert time.monotonic() - before < 30
    assert seen <= {"failed", "starting", "running"}
    assert running.ask("status")["processes"][0]["restarts"] == 1
    assert running.state(CLUSTERD) == "running"


def test_state_right_after_a_kill_while_the_supervisor_is_frozen(running: ToyNode) -> None:
    assert running.process is not None
    first = running.pid(APID)
    assert first is not None
    running.process.send_signal(signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: process_start(first) is None, "the process is gone (a zombie, as no process waits for it)")
    assert running.state(APID) == "failed"
    running.process.send_signal(signal.SIGCONT)
    wait_until(lambda: running.state(APID) == "running", "it is started again")


def test_crash_loop_backs_off_and_is_seen_as_failed(running: ToyNode) -> None:
    (running.root / f"{APID}.fail").touch()
    first = running.pid(APID)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "next start in 1 s" in running.output(), "the pauses grow")
    assert "next start at once" in running.output()
    assert "next start in 0.5 s" in running.output()
    assert "Error when trying to start the secmon API. 2000 - " in running.output()
    wait_until(lambda: running.state(APID) == "failed", "it is reported as failed")
    assert running.state(CLUSTERD) == "running"
    (running.root / f"{APID}.fail").unlink()
    wait_until(lambda: running.state(APID) == "running", "it recovers by itself")


def test_a_daemon_that_is_killed_while_it_starts_is_said_to_be_killed(running: ToyNode) -> None:
    hang = running.root / f"{APID}.hang"
    hang.touch()
    first = running.pid(APID)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    starting = wait_until(lambda: {running.pid(APID)} - {first, None}, "its successor starts")
    hang.unlink()
    os.kill(starting.pop() or 0, signal.SIGKILL)
    said = f"{APID}: it did not start: killed by SIGKILL before it was ready; next start in 0.5 s"
    wait_until(lambda: said in running.output(), "the log says so, and when it is tried again")
    wait_until(lambda: running.state(APID) == "running", "it runs")


def test_address_in_use_is_tried_every_second_and_a_restart_says_who_is_down(running: ToyNode) -> None:
    main_config = running.paths.main_config
    main_config.parent.mkdir(parents=True, exist_ok=True)
    main_config.touch()
    busy = running.root / f"{CLUSTERD}.busy"
    busy.touch()
    done = CliRunner().invoke(main, ("restart", "--root", str(running.root), "--timeout", "5"))
    assert done.exit_code == 1
    assert f"not started: {CLUSTERD};" in done.output
    assert running.output().count("next start in 1 s") >= 2
    assert "next start in 2 s" not in running.output()
    busy.unlink()
    wait_until(lambda: running.state(CLUSTERD) == "running", "it has the address")
    done = CliRunner().invoke(main, ("restart", "--root", str(running.root)))
    assert done.exit_code == 0, done.output


def test_first_start_waits_a_little_for_an_address(node: ToyNode) -> None:
    busy = node.root / f"{CLUSTERD}.busy"
    busy.touch()
    node.start(wait=False)
    wait_until(lambda: "next start in 1 s" in node.output(), "it is tried again")
    busy.unlink()
    wait_until(lambda: node.phase() == "running", "it has the address")


ENDINGS = {
    "exception": "RuntimeError: told to quit",
    "cancellation": "it was cancelled from inside",
    "return": "it returned",
}


def quit_at_once(node: ToyNode, daemon: str, way: str) -> Path:
    """Have ``daemon`` end in one of the ways; remove the file that is returned before it is to start again."""
    aside, file = node.root / "quit", node.root / f"{daemon}.quit"
    aside.write_text(way)
    return aside.rename(file)


@pytest.mark.parametrize("way", ENDINGS)
def test_daemon_whose_work_fails_is_started_again(running: ToyNode, way: str) -> None:
    first = running.pid(CLUSTERD)
    quit_file = quit_at_once(running, CLUSTERD, way)
    wait_until(lambda: f"{CLUSTERD}: ended with status 70" in running.output(), "it ends with its own status")
    assert f"{CLUSTERD} has failed: {ENDINGS[way]}" in (running.paths.logs / "ossec.log").read_text()
    quit_file.unlink()
    wait_until(lambda: running.state(CLUSTERD) == "running" and running.pid(CLUSTERD) != first, "it is back")


def test_first_start_that_fails_stops_everything(node: ToyNode) -> None:
    (node.root / f"{CLUSTERD}.fail").touch()
    node.start(wait=False)
    assert node.process is not None
    assert node.process.wait(LIMIT_SECONDS) == 1
    assert "secmon could not be started: secmon-clusterd: 2000 - " in node.output()
    # Both start at once: the one that fails cleans up by itself before the other has begun, or after that.
    journal = node.journal()
    assert sorted(journal[:2]) == [(APID, "start"), (CLUSTERD, "stop")]
    assert journal[2:] == [(APID, "stop")]
    assert node.leftovers() == []


def test_start_that_hangs_is_given_up(node: ToyNode) -> None:
    (node.root / f"{APID}.hang").touch()
    (node.root / "settings.json").write_text(json.dumps({"start_seconds": 2}))
    node.start(wait=False)
    assert node.process is not None
    assert node.process.wait(LIMIT_SECONDS) == 1
    assert "it was not ready within 2 s" in node.output()


def test_second_supervisor_is_refused(running: ToyNode) -> None:
    second = ToyNode.__new__(ToyNode)
    second.root, second.paths = running.root, running.paths
    second.start(wait=False)
    assert second.process is not None
    assert second.process.wait(LIMIT_SECONDS) == 1
    assert running.process is not None
    assert f"secmon is already running in {running.root} (process {running.process.pid})" in running.output()
    assert running.phase() == "running"


def test_hang_up_reloads_all_daemons(running: ToyNode) -> None:
    assert running.process is not None
    running.process.send_signal(signal.SIGHUP)
    wait_until(
        lambda: {daemon for daemon, deed in running.journal() if deed == "reload"} == {APID, CLUSTERD}, "both reload"
    )
    assert running.ask_daemon(APID, "counters")["reloads"] == 1


def test_reload_of_a_bad_configuration_keeps_the_daemon(running: ToyNode) -> None:
    (running.root / f"{APID}.badconfig").touch()
    with pytest.raises(SecmonError) as caught:
        running.ask_daemon(APID, "reload")
    assert caught.value.code == 1908
    assert running.ask_daemon(APID, "counters")["reloads"] == 0
    running.ask("reload")
    wait_until(lambda: (CLUSTERD, "reload") in running.journal(), "the others reload")
    assert running.state(APID) == "running"


def test_restart_replaces_the_processes(running: ToyNode) -> None:
    before = running.pid(APID)
    running.ask("restart")
    running.ask("restart")  # asked twice, done once
    wait_until(lambda: not running.ask("status")["restart_pending"], "the restart is done")
    assert running.phase() == "running"
    assert running.pid(APID) not in {before, None}
    assert running.state(APID) == "running"
    assert running.journal().count((APID, "start")) == 2


def test_restart_with_an_invalid_configuration_touches_nothing(running: ToyNode) -> None:
    before = running.pid(APID)
    (running.root / "invalid").touch()
    with pytest.raises(SecmonError) as caught:
        running.ask("restart")
    assert caught.value.code == 1908
    assert "cluster.key" in caught.value.message
    assert running.pid(APID) == before
    assert running.state(APID) == "running"


def test_daemon_that_does_not_end_is_cut_off(node: ToyNode) -> None:
    (node.root / f"{APID}.stubborn").touch()
    (node.root / "settings.json").write_text(json.dumps({"stop_seconds": 0.2}))
    node.start()
    assert node.end() == 0
    assert node.leftovers() == []


def test_frozen_daemon_is_killed(node: ToyNode) -> None:
    (node.root / "settings.json").write_text(json.dumps({"stop_seconds": 0.2}))
    node.start()
    frozen = node.pid(APID)
    assert frozen is not None
    os.kill(frozen, signal.SIGSTOP)
    assert node.end() == 0
    assert process_start(frozen) is None
    assert node.leftovers() == []


def test_hung_daemon_is_seen_killed_and_started_again(node: ToyNode) -> None:
    (node.root / "settings.json").write_text(json.dumps({"watch": {"interval_seconds": 0.2, "misses": 5}}))
    node.start()
    hung, other = node.pid(CLUSTERD), node.pid(APID)
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    wait_until(lambda: node.pid(CLUSTERD) not in {hung, None}, "another process takes its place")
    wait_until(lambda: node.state(CLUSTERD) == "running", "it serves again")
    assert process_start(hung) is None
    assert re.search(rf"{CLUSTERD}: it did not answer for \d+ s and was killed; next start at once", node.output())
    processes = {each["daemon"]: each for each in node.ask("status")["processes"]}
    assert (processes[CLUSTERD]["hangs"], processes[CLUSTERD]["restarts"]) == (1, 1)
    assert (processes[APID]["hangs"], processes[APID]["restarts"], processes[APID]["pid"]) == (0, 0, other)


def test_state_of_a_hung_daemon_that_is_not_watched(node: ToyNode) -> None:
    (node.root / "settings.json").write_text(json.dumps({"watch": None}))
    node.start()
    hung = node.pid(CLUSTERD)
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    states = asyncio.run(SupervisorClient(node.paths).checked_states())
    assert (states[CLUSTERD], states[APID]) == ("failed", "running")
    os.kill(hung, signal.SIGCONT)
    states = asyncio.run(SupervisorClient(node.paths).checked_states())
    assert (states[CLUSTERD], node.pid(CLUSTERD)) == ("running", hung)


def test_daemon_that_hangs_in_its_stop_is_left_to_the_bound_of_the_stop(node: ToyNode) -> None:
    (node.root / f"{APID}.stubborn").touch()
    plan = {"watch": {"interval_seconds": 0.1, "misses": 2}, "stop_seconds": 1}
    (node.root / "settings.json").write_text(json.dumps(plan))
    node.start()
    assert node.end() == 0
    assert "was killed" not in node.output()
    assert node.leftovers() == []


@pytest.mark.parametrize("folders", [False, True], ids=["files", "folders"])
def test_run_files_and_sockets_that_are_removed_come_back(running: ToyNode, folders: bool) -> None:
    pids = [running.pid(APID), running.pid(CLUSTERD)]
    for folder in (running.paths.run, running.paths.sockets):
        for path in folder.iterdir():
            path.unlink()
        if folders:
            folder.rmdir()
    assert SupervisorLock(running.root).held()
    wait_until(lambda: running.phase() == "running", "the supervisor can be asked")
    wait_until(lambda: running.state(APID) == running.state(CLUSTERD) == "running", "the states are right")
    wait_until(lambda: all(daemon_socket(running.paths, each).exists() for each in (APID, CLUSTERD)), "sockets")
    assert running.ask_daemon(APID, "status")["pid"] == pids[0]
    assert [running.pid(APID), running.pid(CLUSTERD)] == pids
    running.ask("stop")
    assert running.process is not None
    assert running.process.wait(LIMIT_SECONDS) == 0
    assert running.leftovers() == []


def test_daemons_end_with_a_supervisor_that_was_killed(running: ToyNode) -> None:
    pids = [running.pid(APID), running.pid(CLUSTERD)]
    assert running.process is not None
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not any(process_start(pid) for pid in pids if pid), "the daemons end")
    running.start()  # and the lock is free
    assert running.state(APID) == "running"


def test_stop_through_the_control_socket(running: ToyNode) -> None:
    running.ask("stop")
    assert running.process is not None
    assert running.process.wait(LIMIT_SECONDS) == 0


def test_secrets_reach_the_daemons_outside_arguments_and_environment(running: ToyNode) -> None:
    assert running.ask_daemon(APID, "config", section="toy") == {"toy": {"secrets": ["https.key"], "single": False}}
    pid = running.pid(APID)
    with open(f"/proc/{pid}/cmdline", "rb") as arguments:
        assert b"https.key" not in arguments.read()
    with open(f"/proc/{pid}/environ", "rb") as environment:
        assert b"https.key" not in environment.read()


def test_entries_that_cannot_be_logged_are_counted(running: ToyNode) -> None:
    def lost() -> list[float]:
        counted = (running.ask_daemon(APID, "counters"), running.ask("status")["counters"])
        return [each["log.write_errors"] for each in counted]

    before = lost()
    (running.paths.logs / "ossec.log").unlink()
    (running.paths.logs / "ossec.log").mkdir()
    running.ask("reload")  # which both log
    wait_until(lambda: all(now > then for now, then in zip(lost(), before, strict=True)), "both count them")


def test_single_process(node: ToyNode) -> None:
    node.start("--single")
    assert node.process is not None
    assert node.pid(APID) == node.pid(CLUSTERD) == node.process.pid
    assert node.state(APID) == "running"
    assert node.ask_daemon(CLUSTERD, "config")["toy"]["single"] is True
    for way, reason in ENDINGS.items():
        quit_file = quit_at_once(node, APID, way)
        wait_until(lambda reason=reason: f"{APID}: it failed: {reason}" in node.output(), "the failure is seen")  # type: ignore[misc]
        quit_file.unlink()
        wait_until(lambda: node.state(APID) == "running", "it is back")
    assert node.ask_daemon(APID, "counters")["task_restarts"] == {"run files": 0, "freed memory": 0}
    node.ask("restart")
    wait_until(lambda: not node.ask("status")["restart_pending"], "the restart is done")
    assert node.state(CLUSTERD) == "running"
    assert node.end() == 0
    assert node.leftovers() == []
