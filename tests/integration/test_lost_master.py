"""Loss of the master's store, and of the master (docs/replace-a-lost-master.md), with real processes."""

import shutil
import subprocess
import sys

import httpx

from secmon.cluster.store_checks import SecuritySummary, read_security_summary
from tests.integration.kit import RealNode, cluster
from tests.waiting import LIMIT_SECONDS, wait_until

WORD = "Quarry-7!lamp"
WORKER, MASTER = "<node_type>worker</node_type>", "<node_type>master</node_type>"

ANY_PORT = "clusterd.peer_port=0"
"""Of workers that share a host with their master."""


def summary(node: RealNode) -> SecuritySummary:
    found = read_security_summary(node.paths.security_db)
    assert found is not None
    return found


def refused_start(node: RealNode) -> str:
    """What a node prints that does not start."""
    node.start(wait=False)
    assert node.process is not None
    assert node.process.wait(LIMIT_SECONDS) == 1, node.output()
    node.process = None
    return node.output().splitlines()[-1]


def become(node: RealNode, old: str, new: str) -> None:
    text = node.paths.main_config.read_text()
    assert old in text
    node.paths.main_config.write_text(text.replace(old, new))


def secmon(node: RealNode, *command: str) -> str:
    line = [sys.executable, "-m", "secmon.cli", *command, "--root", str(node.paths.root)]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=LIMIT_SECONDS).stdout


def logs_in(node: RealNode, user: str, password: str) -> bool:
    try:
        return node.request("POST", "/security/user/authenticate", auth=(user, password)).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_lost_master_is_replaced_and_comes_back_as_a_worker() -> None:
    with cluster(workers=2, single_process=True) as made:
        lost, heir, other = made.nodes
        made.call(lost, "/security/users", method="POST", json={"username": "carol", "password": WORD})
        token, before = made.login(other), summary(other)

        # The master has lost its users: it does not start, and no worker applies the loss.
        lost.stop()
        shutil.rmtree(lost.paths.security)
        line = refused_start(lost)
        assert str(lost.paths.security_db) in line
        assert "secmon user create-defaults" in line
        assert not lost.paths.security.exists()
        assert summary(heir) == summary(other) == before

        # A worker takes its place.
        heir.stop()
        become(heir, WORKER, MASTER)
        options = heir.paths.local_internal_options.read_text()
        heir.paths.local_internal_options.write_text(options.replace(f"{ANY_PORT}\n", ""))
        assert "secmon cluster promote" in refused_start(heir)
        assert "Promoted" in secmon(heir, "cluster", "promote")
        heir.start()
        wait_until(lambda: summary(other) == summary(heir)._replace(replica=True), what="the heir is followed")
        assert summary(heir).revision > before.revision  # and keys of workers, as they come back
        for node in (heir, other):
            wait_until(lambda node=node: logs_in(node, "carol", WORD), what=f"carol at {node.name}")  # type: ignore[misc]
            assert node.request("GET", "/security/users/me", token=token).status_code == 401
        log = (other.paths.logs / "cluster.log").read_text()
        assert f"had store {before.store_id} at revision {before.revision}" in log
        assert f"has now applied store {summary(heir).store_id}" in log

        # The old host comes back, as a worker; on this machine its port for peers is taken.
        become(lost, MASTER, WORKER)
        with lost.paths.local_internal_options.open("a") as file:
            file.write(f"{ANY_PORT}\n")
        lost.start()
        made.wait_whole()
        assert summary(lost) == summary(other)
        assert lost.paths.security.stat().st_mode & 0o7777 == 0o770
        made.call(lost, "/security/users", method="POST", json={"username": "dave", "password": WORD})
        assert all(logs_in(node, "dave", WORD) for node in made.nodes)
        assert "is whole" in secmon(heir, "audit", "verify")


def test_workers_follow_a_reinstalled_master() -> None:
    with cluster(workers=1, single_process=True) as made:
        master, worker = made.nodes
        before = summary(worker)
        master.stop()
        shutil.rmtree(master.paths.security)
        printed = secmon(master, "user", "create-defaults")
        password = printed.split("admin")[1].split()[0]
        master.start()
        wait_until(lambda: logs_in(worker, "admin", password), what="the new administrator at the worker")
        assert not logs_in(worker, "admin", made.password)
        assert summary(worker).store_id not in ("", before.store_id)
        assert before.store_id in (worker.paths.logs / "cluster.log").read_text()
