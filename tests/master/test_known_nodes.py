"""Known nodes, kept over restarts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.master.known_nodes import KnownNodes
from secmon.master.membership import KnownNode


def test_known_nodes_survive_a_restart(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    nodes = KnownNodes(paths)
    alpha = KnownNode(name="alpha", version="4.8.2", ip="10.0.0.1", last_seen=datetime(2026, 1, 1, tzinfo=UTC))
    nodes.put(alpha)
    nodes.save()
    again = KnownNodes(paths)
    assert again.all() == (alpha,)
    again.forget("alpha")
    again.save()
    assert KnownNodes(paths).all() == ()


@pytest.mark.parametrize("content", [b"", b"{", b'[{"name": 1}]', b"\xff"])
def test_a_damaged_file_of_known_nodes_is_replaced(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    paths = Paths(tmp_path)
    paths.cluster.mkdir(parents=True)
    (paths.cluster / "known_nodes.json").write_bytes(content)
    assert KnownNodes(paths).all() == ()
    assert "known_nodes.json" in caplog.text
