"""The installation as a daemon reads it."""

from pathlib import Path

from secmon.cluster.leadership.role_file import CurrentRole, write_role
from secmon.cluster.leadership.term import Term
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.daemons.install import install
from secmon.daemons.node_builder import read_installation

SECTION = ClusterSection(node_name="a", key="0123456789abcdefghijklmnopqrstuv", nodes=["10.0.0.1"])


def test_a_daemon_that_hands_changes_in_has_no_role(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "a")
    install(paths, cluster=SECTION)
    write_role(paths.role, CurrentRole("master", Term(7, "id", "a", "10.0.0.1", 1516)))
    assert not read_installation(paths, hands_in=True).is_worker, "the configuration decides"
    text = paths.main_config.read_text()
    paths.main_config.write_text(text.replace("</cluster>", "<store>postgresql://x/y</store></cluster>"))
    assert not read_installation(paths).is_worker
    assert read_installation(paths, hands_in=True).is_worker
