"""A worker whose disk fills while it applies what the master sends."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from secmon.common.file_io import write_file
from tests.integration import namespaces
from tests.integration.kit import RealCluster, cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not namespaces.usable(), reason="needs root to mount a small file system"),
]


@pytest.fixture
def cramped() -> Iterator[RealCluster]:
    """A cluster whose worker has 48 MiB for its replicated files and their staging."""
    mounted = []

    def mount(made: RealCluster) -> None:
        root = made.workers[0].paths.root
        spare = root.with_name("spare")
        root.rename(spare)
        root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=750", "tmpfs", str(root)], check=True)
        mounted.append(root)
        subprocess.run(["cp", "-a", f"{spare}/.", str(root)], check=True)

    try:
        patient = {"clusterd.ack_timeout_ms": 60_000}
        with cluster(workers=1, options=patient, single_process=True, before_start=mount) as running:
            yield running
    finally:
        for root in mounted:
            subprocess.run(["umount", "-l", str(root)], check=False, capture_output=True)
            shutil.rmtree(root.parent, ignore_errors=True)  # where it was mounted


def reported(cluster: RealCluster) -> str:
    """What keeps the files of the worker from being synchronized, by the master."""
    health = cluster.call(cluster.master, "/cluster/healthcheck")["data"]["affected_items"][1]
    return str(health["status"].get("sync_integrity_error", ""))


def test_nothing_is_half_written_and_it_recovers(cramped: RealCluster) -> None:
    worker, group = cramped.workers[0], cramped.master.paths.shared / "default"
    (group / "kept.txt").write_text("old")
    cramped.wait_converged()
    write_file(group / "big.bin", b"x" * 80 * 1024 * 1024)  # at once: what is seen of a file being written arrives
    log = worker.paths.logs / "cluster.log"
    wait_until(lambda: "space" in log.read_text().lower(), what="the worker says what is wrong")
    assert not (worker.paths.shared / "default" / "big.bin").exists()
    wait_until(lambda: "space" in reported(cramped).lower(), what="the master says it too")
    # The cluster goes on: calls, logins, security changes.
    token = cramped.login(worker)
    assert worker.request("GET", "/cluster/nodes", token=token).status_code == 200
    changed = cramped.master.request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
    assert "Not yet confirmed" not in changed.text
    (group / "big.bin").unlink()
    (group / "kept.txt").write_text("new")
    cramped.wait_converged()
    assert (worker.paths.shared / "default" / "kept.txt").read_text() == "new"
