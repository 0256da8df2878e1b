"""What the commands say of a cluster without a master."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.cli.no_master import sentences, why_no_master
from secmon.cluster.leadership.client import LeaderStatus, Unable
from secmon.cluster.leadership.term import Term
from secmon.common.paths import Paths
from tests.integration.ha_kit import use_address_and_store

TERM = Term(5, "id", "n1", "10.0.0.1", 1516)
USUAL = LeaderStatus(
    role="worker", term=TERM, since="2026-03-05T10:00:00Z", reason="n2 was stopped", resigned=False,
    expired_since=None, candidates=["n1", "n3"], may_follow=["n1", "n3"], unable=[], contacted=1.0, trouble="",
    trouble_since=None,
)  # fmt: skip
WHY = Unable("n2", "10.0.0.2", "another cluster key")
LINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a master that does not answer": (
        {}, ["Term 5: n1 at 10.0.0.1:1516 is the master since 2026-03-05T10:00:00Z: n2 was stopped"]
    ),
    "nobody can follow": (
        {"expired_since": "2026-03-05T10:00:10Z", "candidates": [], "unable": [WHY]},
        [
            "Term 5 of n1 has expired, at 2026-03-05T10:00:10Z.", "No node can become master now.",
            "Cannot become master: n2 (10.0.0.2): another cluster key",
        ],
    ),
    "somebody will": (
        {"resigned": True, "reason": "n1 was stopped", "candidates": ["n3"]},
        ["Term 5 of n1 was resigned: n1 was stopped", "Can become master: n3"],
    ),
    "no database": (
        {"trouble": "db/x: refused", "trouble_since": "2026-03-05T11:00:00Z", "term": None, "candidates": []},
        ["The database is away since 2026-03-05T11:00:00Z: db/x: refused", "No node has been the master yet."],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), LINES.values(), ids=LINES)
def test_causes(changes: dict[str, Any], expected: list[str]) -> None:
    assert list(sentences(msgspec.structs.replace(USUAL, **changes))) == expected


def test_a_node_that_does_not_run(master: Path) -> None:
    paths = Paths(master)
    assert list(why_no_master(paths)) == []
    use_address_and_store(paths, "postgresql://secmon@127.0.0.1:1/x", "127.0.0.1")
    [sentence] = why_no_master(paths)
    assert "secmon-leaderd does not answer" in sentence
