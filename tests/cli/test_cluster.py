"""``secmon cluster`` of a node whose daemon does not answer, and its tables."""

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest

from secmon import __version__
from secmon.cli import local_calls, switchover
from secmon.cli.cluster import show_health
from secmon.common.paths import Paths
from tests.cli.runner import KEY, WORKER, run

DATES = {"date_start_master": "n/a", "date_end_master": "2026-03-05T10:00:01.123456Z"}


def healthy(name: str, **status: object) -> dict[str, Any]:
    known = {"sync_integrity_free": True, "last_check_integrity": DATES, "last_keep_alive": "n/a"}
    info = {"name": name, "type": "worker", "version": "4.8.2", "ip": "10.0.0.2", "n_active_agents": 7}
    return {"info": info, "status": known | status}


def test_status_without_the_daemon(root: Path) -> None:
    run("init", root / "n", *WORKER, text=f"{KEY}\n")
    done = run("cluster", "status", "--root", root / "n")
    assert done.exit_code == 1
    versions, state = done.output.splitlines()
    assert versions == f"secmon {__version__} (API 4.8.2), link generations 2 to 3"
    assert state.startswith("w1 is a worker of cluster secmon: not connected: 3012")


def test_health_is_a_table_with_the_troubles_below(capsys: pytest.CaptureFixture[str]) -> None:
    seen = {"name": "w3", "version": "4.8.2", "ip": "10.0.0.4", "last_seen": "2026-03-05T09:00:00.000000Z"}
    no = {"name": "w4", "ip": "10.0.0.5", "code": 3025, "reason": "wrong proof", "time": "2026-03-05T09:30:00.000000Z"}
    info = {"name": "m", "type": "master", "version": "4.8.2", "ip": "10.0.0.1", "n_active_agents": 0}
    show_health(
        [
            {"info": info, "lost": [seen], "refused": [no]},
            healthy("w1"),
            healthy("w2", sync_integrity_free=False, last_keep_alive="2026-03-05T10:00:05.000000Z"),
            healthy("w5", sync_integrity_error="disk full"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "NAME  TYPE    VERSION  IP        AGENTS  FILES       COMPARED              LAST SEEN",
        "m     master  4.8.2    10.0.0.1  0       -           -                     -",
        "w1    worker  4.8.2    10.0.0.2  7       up to date  2026-03-05T10:00:01Z  n/a",
        "w2    worker  4.8.2    10.0.0.2  7       behind      2026-03-05T10:00:01Z  2026-03-05T10:00:05Z",
        "w5    worker  4.8.2    10.0.0.2  7       failing     2026-03-05T10:00:01Z  n/a",
        "Lost: w3 (10.0.0.4), last seen 2026-03-05T09:00:00Z",
        "Refused: w4 (10.0.0.5) at 2026-03-05T09:30:00Z: wrong proof (3025)",
        "Failing: w5 cannot take over the files of the master: disk full",
    ]


def test_what_another_node_says_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_health([healthy("w5", sync_integrity_error="a\x1b]0;b\x07\x9b2J\nc\u202e", last_keep_alive="\x1b[2J")])
    shown = capsys.readouterr().out
    assert "the master: a\\x1b]0;b\\x07\\x9b2J\\nc\\u202e\n" in shown
    assert shown.count("\n") == 3
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_health_shows_who_is_master_by_the_store_of_record(capsys: pytest.CaptureFixture[str]) -> None:
    info = {"name": "m", "type": "master", "version": "4.8.2", "ip": "10.0.0.1", "n_active_agents": 0}
    shown = {"term": 5, "holder": "m", "since": "2026-03-05T10:00:00Z", "reason": "w1 was stopped", "candidates": []}
    show_health([{"info": info, "mastership": shown | {"trouble": "db/x: no answer"}}])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "Term 5: m is the master since 2026-03-05T10:00:00Z: w1 was stopped",
        "No change is accepted: db/x: no answer",
    ]


def test_a_switchover_needs_a_store_of_record(master: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("cluster", "switchover", "--root", str(master))
    assert (done.exit_code, "is not running" in done.output) == (1, True)
    monkeypatch.setattr(switchover, "require_running", lambda paths: None)
    done = run("cluster", "switchover", "--root", str(master))
    assert (done.exit_code, "no store of record" in done.output) == (1, True)


def test_cluster_commands_need_the_daemon(master: Path) -> None:
    for command in ("nodes", "health"):
        done = run("cluster", command, "--root", str(master))
        assert done.exit_code == 1
        assert "The cluster daemon of this node is not running" in done.output


@pytest.mark.parametrize("command", ["nodes", "health"])
def test_cluster_commands_on_a_node_without_a_cluster(root: Path, command: str) -> None:
    assert run("init", str(root / "n")).exit_code == 0
    done = run("cluster", command, "--root", str(root / "n"))
    assert done.exit_code == 1
    assert done.output.startswith("Error: The cluster is disabled or not running. Enable it in the cluster section")


@pytest.mark.parametrize("queue", [100, 0], ids=["connection taken by the kernel", "queue full"])
def test_cluster_commands_when_the_daemon_hangs(master: Path, monkeypatch: pytest.MonkeyPatch, queue: int) -> None:
    monkeypatch.setattr(local_calls, "_CONNECT_SECONDS", 0.5)
    path = str(Paths(master).cluster_socket)
    with contextlib.ExitStack() as stack:
        hung = stack.enter_context(socket.socket(socket.AF_UNIX))
        hung.bind(path)
        hung.listen(queue)
        for _ in range(20 if queue == 0 else 0):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(path)
        done = run("cluster", "nodes", "--root", str(master))
    assert done.exit_code == 1
    assert done.output.startswith("Error: The node did not answer in time: the cluster daemon of this node.")


def test_cluster_commands_find_a_socket_that_a_killed_daemon_left(master: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(Paths(master).cluster_socket))
    done = run("cluster", "nodes", "--root", str(master))
    assert done.exit_code == 1
    assert "The cluster daemon of this node is not running" in done.output
