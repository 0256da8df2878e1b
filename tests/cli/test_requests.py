"""``secmon requests slow`` without a node that answers, and its table."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.cli.requests import show
from secmon.cluster.slow_requests import SlowRequest, Spent
from tests.cli.runner import run


def test_the_table_names_what_each_node_spent(capsys: pytest.CaptureFixture[str]) -> None:
    spent = [Spent("m1", "function", 2.0), Spent("m1", "store", 1.5), Spent("w1", "network", 0.5)]
    found = SlowRequest(
        time=datetime(2026, 3, 5, 10, 0, tzinfo=UTC), id="0a1b", seconds=2.5, operation="get_agents", method="GET",
        path="/agents/\x1b[2J", status=200, user="ada", client="10.0.0.9", node="w1", spent=spent,
    )  # fmt: skip
    show([found])
    assert capsys.readouterr().out.splitlines() == [
        "SECONDS  TIME                  STATUS  USER  NODE  REQUEST",
        "2.500    2026-03-05T10:00:00Z  200     ada   w1    GET /agents/\\x1b[2J",
        "",
        "0a1b",
        "  m1: function 2.000, store 1.500",
        "  w1: network 0.500",
    ]


def test_refusals(master: Path) -> None:
    done = run("requests", "slow", "--since", "soon", "--root", str(master))
    assert (done.exit_code, "suffix s, m, h, d or w" in done.output) == (2, True)
    done = run("requests", "slow", "--root", str(master))
    assert (done.exit_code, "not running" in done.output) == (1, True)
