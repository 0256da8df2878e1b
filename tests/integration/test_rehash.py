"""Outdated password hashes in a real cluster: a login at a worker has the master replace them, and all nodes follow."""

from secmon.security.passwords import needs_rehash
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from tests.integration.kit import RealCluster, RealNode, cluster
from tests.waiting import wait_until

PASSWORD = "Quarry-7!lamp"
PBKDF2 = "pbkdf2:sha256:260000$k3Vt0pZqLm9RsXaY$c891267ca498cb968db0d293a46fe8c590098bc4e87408cc1674709c3cfce0f2"


def age(made: RealCluster) -> None:
    """Both users have hashes from an older store."""
    store = SecurityStore(made.master.paths.security_db)
    with store.write() as tx:
        for row in tx.select(schema.users):
            tx.put(schema.users, row | {"password": PBKDF2})
    store.close()
    made.password = PASSWORD


def due(node: RealNode) -> set[str]:
    """Names of the users whose hash on ``node`` is of an older kind."""
    store = SecurityStore(node.paths.security_db, writable=node.name == "master-node")
    with store.read() as rows:
        found = {row["username"] for row in rows.select(schema.users) if needs_rehash(row["password"])}
    store.close()
    return found


def test_a_login_at_a_worker_upgrades_the_hash_everywhere() -> None:
    with cluster(workers=1, single_process=True, before_start=age) as running:
        # Waiting for the cluster has logged the administrator in everywhere; the other user comes to the worker only.
        worker = running.workers[0]
        wait_until(lambda: "admin" not in due(worker), what="the administrator's hash replaced")
        [name] = due(worker)
        answer = worker.request("POST", "/security/user/authenticate?raw=true", auth=(name, PASSWORD))
        assert answer.status_code == 200
        wait_until(lambda: not any(due(node) for node in running.nodes), what="the other hash replaced")
        assert [node.request("GET", "/", token=answer.text).status_code for node in running.nodes] == [200, 200]
        for node in running.nodes:
            again = node.request("POST", "/security/user/authenticate", auth=(name, PASSWORD))
            assert again.status_code == 200
