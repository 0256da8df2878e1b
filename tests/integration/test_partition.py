"""Network partitions between hosts in network namespaces."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.folders import short_root
from tests.integration import namespaces
from tests.integration.kit import RealCluster, make_node
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not namespaces.usable(), reason="needs root and network namespaces"),
]


@dataclass
class Net:
    cluster: RealCluster
    hosts: namespaces.Hosts


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    folder = Path(tempfile.mkdtemp(prefix="sm-", dir=short_root()))
    with namespaces.hosts(3) as hosts:
        nodes = []
        for number, name in enumerate(("master-node", "worker1", "worker2"), start=1):
            node = make_node(
                folder,
                name,
                role="master" if number == 1 else "worker",
                master=hosts.cluster_address(1),
                address=hosts.cluster_address(number),
                cluster_port=1516,
                api_port=55000,
                prefix=hosts.prefix(number),
                options={"clusterd.heartbeat_ms": 100},
                api={"host": "0.0.0.0", "intervals.request_timeout": 20},
            )
            node.single_process = True
            node.address = hosts.client_address(number)
            nodes.append(node)
        assert nodes[0].password is not None
        made = RealCluster(nodes[0], nodes[1:], nodes[0].password, folder)
        try:
            for node in nodes:
                node.start(wait=False)
            made.wait_whole()
            yield Net(made, hosts)
        finally:
            for node in nodes:
                node.stop()
            shutil.rmtree(folder, ignore_errors=True)


def test_a_partition_heals(net: Net) -> None:
    cluster, worker = net.cluster, net.cluster.workers[1]
    token = cluster.login()
    group = cluster.master.paths.shared / "default"
    (group / "before.txt").write_text("1")
    cluster.wait_converged()
    net.hosts.cut(3)
    try:
        body = cluster.master.request("GET", "/cluster/configuration/validation", token=token).json()
        assert [item["name"] for item in body["data"]["affected_items"]] == ["master-node", "worker1"]
        assert list(body["dapi_errors"]) == ["worker2"]
        (group / "before.txt").unlink()
        (group / "during.txt").write_text("2")
        revoked = cluster.master.request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
        assert revoked.status_code == 200
        # The cut-off worker has not heard of the revocation; its lease bounds how long that can matter.
        wait_until(
            lambda: worker.request("GET", "/manager/status", token=token).status_code == 503, what="the lease ran out"
        )
        assert (
            worker.request("POST", "/security/user/authenticate", auth=("admin", cluster.password)).json()["error"]
            == 3043
        )
    finally:
        net.hosts.cut(3, cut=False)
    cluster.wait_whole()
    cluster.wait_converged()
    assert worker.request("GET", "/manager/status", token=token).status_code == 401
    assert worker.request("GET", "/manager/status", token=cluster.login()).status_code == 200


def test_the_answer_to_a_change_names_late_workers(net: Net) -> None:
    cluster = net.cluster
    token = cluster.login()
    net.hosts.cut(2)
    try:
        answer = cluster.master.request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
        assert answer.status_code == 200
        assert "Not yet confirmed by: worker1" in answer.json()["message"]
    finally:
        net.hosts.cut(2, cut=False)
    cluster.wait_whole()


def test_a_half_open_session_is_replaced_at_once(net: Net) -> None:
    cluster, worker = net.cluster, net.cluster.workers[0]
    net.hosts.cut(2)
    worker.kill()  # its leave message never arrives
    net.hosts.cut(2, cut=False)
    worker.start(wait=False)
    cluster.wait_whole()
    assert cluster.call(cluster.master, "/cluster/healthcheck")["error"] == 0
