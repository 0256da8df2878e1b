"""The cluster section with the role of the moment."""

from pathlib import Path

from secmon.cluster.leadership.current_cluster import current_cluster, with_role
from secmon.cluster.leadership.role_file import CurrentRole, write_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection, StoreOfRecord
from secmon.config.options import InternalOptions

PLAIN = ClusterSection(node_name="a", nodes=["10.9.9.9"])
SECTION = ClusterSection(node_name="a", node_type="master", port=2000, store=StoreOfRecord(url="postgresql://x/y"))
TERM = Term(7, "id", "b", "10.0.0.2", 3000)
OWN = Term(7, "id", "a", "10.0.0.1", 2000)


def test_without_a_store_the_file_decides(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.run.mkdir(parents=True)
    write_role(paths.role, CurrentRole("worker", TERM))
    assert current_cluster(paths, PLAIN) is PLAIN
    assert current_cluster(paths, SECTION).nodes == ["10.0.0.2"]


def test_a_worker_finds_its_master_and_keeps_its_own_port() -> None:
    found = with_role(SECTION, CurrentRole("worker", TERM))
    assert (found.is_worker, found.master) == (True, "10.0.0.2")
    link = LinkSettings.of(found, InternalOptions.defaults())
    assert (link.master, link.port, link.enrol_port, link.listen_port) == ("10.0.0.2", 3000, 3001, 2000)
    assert "master_port" not in found.as_dict()


def test_a_worker_without_a_master() -> None:
    for role in (CurrentRole("worker"), CurrentRole("worker", OWN)):
        found = with_role(SECTION, role)
        assert (found.is_worker, found.master) == (True, "")


def test_the_master() -> None:
    found = with_role(SECTION, CurrentRole("master", OWN))
    assert (found.is_worker, found.master) == (False, "10.0.0.1")
    link = LinkSettings.of(found, InternalOptions.defaults())
    assert (link.port, link.listen_port) == (2000, 2000)
