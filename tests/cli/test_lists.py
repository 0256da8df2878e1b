"""``secmon lists``, with feeds of a real web server."""

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from tests.cli.runner import MASTER, WORKER, run


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output of the command is what counts."""


@pytest.fixture
def feeds(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the files in ``tmp_path``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def paths(root: Path) -> Paths:
    assert run("init", root, *MASTER).exit_code == 0
    return Paths(root)


def test_status_and_renewal(paths: Paths, feeds: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("192.0.2.1\n192.0.2.2\nx\n")
    text = f"feeds:\n  bad-addresses: {{url: {feeds}/good, kind: address}}\n  down: {{url: {feeds}/none}}\n"
    (paths.lists / "feeds.yml").write_text(text)
    shown = run("lists", "status", "--root", paths.root)
    assert (shown.exit_code, shown.stdout.splitlines()) == (
        0,
        [
            "bad-addresses: waiting; no rule can look it up: "
            "add <list>etc/lists/bad-addresses</list> to <ruleset> in etc/ossec.conf",
            "down: waiting; no rule can look it up: add <list>etc/lists/down</list> to <ruleset> in etc/ossec.conf",
            "feeds: 2",
        ],
    )
    done = run("lists", "renew", "bad-addresses", "--root", paths.root)
    assert (done.exit_code, "bad-addresses: current; 2 entries, renewed" in done.stdout) == (0, True), done.output
    assert (paths.lists / "bad-addresses").read_text() == "192.0.2.1:\n192.0.2.2:\n"
    done = run("lists", "renew", "--root", paths.root, "--json")
    found = json.loads(done.stdout)["data"]
    assert done.exit_code == 1
    assert (found["bad-addresses"]["left_out"], found["down"]["error"]) == (1, "the server answers with status 404")
    shown = run("lists", "status", "--root", paths.root)
    assert (shown.exit_code, "; fails since 2" in shown.stdout.splitlines()[1]) == (1, True)
    config = paths.main_config.read_text()
    paths.main_config.write_text(config.replace("<ruleset>", "<ruleset><list>etc/lists/down</list>"))
    status = json.loads(run("lists", "status", "--root", paths.root, "--json").stdout)["data"]
    assert [each["loaded"] for each in status.values()] == [False, True]


@pytest.mark.parametrize(
    ("text", "arguments", "status", "message"),
    [
        ("", ("status",), 0, "feeds: 0"),
        ("", ("renew", "x"), 2, "has no feed x"),
        ("feeds: {a: {}}", ("status",), 1, "feeds.a.url"),
        ("feeds: {a: {}}", ("renew",), 1, "feeds.a.url"),
    ],
)
def test_what_is_refused(paths: Paths, text: str, arguments: tuple[str, ...], status: int, message: str) -> None:
    if text:
        (paths.lists / "feeds.yml").write_text(text)
    done = run("lists", *arguments, "--root", paths.root)
    assert (done.exit_code, message in done.output) == (status, True), done.output


def test_workers_get_their_lists_from_the_master(root: Path) -> None:
    assert run("init", root, *WORKER, text="k" * 32).exit_code == 0
    for command in ("status", "renew"):
        done = run("lists", command, "--root", root)
        assert (done.exit_code, "this node is a worker" in done.output) == (1, True), done.output
