"""Commands of an operator on nodes that run."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from pyrage import x25519

from secmon.backup.create import create_backup
from secmon.backup.encryption import public_key_seal, read_head
from secmon.backup.restore import restore_backup
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.security.audit_check import check_end, verify
from secmon.security.store.security_store import SecurityStore
from tests.integration.kit import RealCluster
from tests.waiting import LIMIT_SECONDS, wait_until


def test_doctor_on_nodes_that_run(three: RealCluster) -> None:
    three.wait_converged()
    for node in (three.nodes[0], three.workers[0]):
        command = [sys.executable, "-m", "secmon.cli", "doctor", "--root", str(node.paths.root), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        found = json.loads(done.stdout)["data"]["findings"]
        states = {(each["check"], each["state"]) for each in found}
        assert any(each["text"].startswith("those of 3 nodes differ") for each in found), found
        assert {("ports", "ok"), ("nodes", "ok"), ("certificates", "ok")} <= states, found
        assert ("daemons", "warning") not in states


def test_a_master_that_runs_is_saved_and_restored_elsewhere(three: RealCluster, tmp_path: Path) -> None:
    master = three.nodes[0].paths
    key, clock = x25519.Identity.generate(), SystemClock()
    seal = public_key_seal(str(key.to_public()))
    token = three.login()
    assert three.nodes[0].request("POST", "/security/roles", token=token, json={"name": "saved"}).status_code == 200
    try:
        create_backup(master, tmp_path / "file", seal, without=(), clock=clock, progress=lambda *_: None)
    finally:
        roles = three.call(three.nodes[0], "/security/roles?search=saved")["data"]["affected_items"]
        three.nodes[0].request("DELETE", f"/security/roles?role_ids={roles[0]['id']}", token=three.login())
    restored = Paths(tmp_path / "n")
    with open(tmp_path / "file", "rb") as archive:
        read_head(archive)
        restore_backup(
            archive, key, restored, replace=False, daemons_as_root=True, clock=clock, progress=lambda *_: None
        )
    for name in ("etc/cluster/ca.key", "etc/cluster/node.key", "etc/client.keys", "api/configuration/api.yaml"):
        assert (restored.root / name).read_bytes() == (master.root / name).read_bytes()
    store = SecurityStore(restored.security_db, create=False)
    try:
        assert "saved" in {role.name for role in store.view().roles.values()}
        report, position = verify(restored.audit_log), store.position()
    finally:
        store.close()
    check_end(report, position.store_id, position.revision)
    assert report.problem is None


def test_a_slow_request_names_the_node_that_it_waited_for(three: RealCluster) -> None:
    asked, held, other = three.nodes[0], three.workers[0], three.workers[1]
    token, path, held_pid = three.login(), f"/cluster/{held.name}/logs/summary", held.pid("secmon-clusterd")
    assert held_pid is not None
    with ThreadPoolExecutor(1) as clients:
        os.kill(held_pid, signal.SIGSTOP)
        try:
            begun = monotonic()
            answer = clients.submit(asked.request, "GET", path, token=token)
            wait_until(lambda: answer.done() or monotonic() - begun > 1.5, what="the answer is late")
        finally:
            os.kill(held_pid, signal.SIGCONT)
        answer.result()
    command = [sys.executable, "-m", "secmon.cli", "requests", "slow", "--json", "--limit", "200"]
    command += ["--root", str(other.paths.root)]

    def shown() -> list[dict[str, object]]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        found = json.loads(done.stdout)["data"] if done.returncode == 0 else []
        return [each for each in found if each["path"] == path]

    (found,) = wait_until(shown, what="the request is among the slow ones of all nodes")
    assert (found["node"], found["method"]) == (asked.name, "GET")
    spent = found["spent"]
    assert isinstance(spent, list)
    assert held.name in {each["node"] for each in spent}
