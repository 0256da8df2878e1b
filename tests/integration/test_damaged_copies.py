"""A worker with damaged replicas starts and fetches the master's state, with real processes."""

import sqlite3
from contextlib import closing

from tests.integration.kit import RealNode, cluster
from tests.security.store.damage import overwrite_pages
from tests.waiting import wait_until


def agents(node: RealNode) -> list[tuple[str, str]]:
    """Names and groups in the registry of ``node``."""
    with closing(sqlite3.connect(node.paths.agents_db, timeout=15)) as connection:
        return connection.execute('SELECT name, "group" FROM agents ORDER BY id').fetchall()


def logs_in(node: RealNode, password: str) -> bool:
    return node.request("POST", "/security/user/authenticate", auth=("admin", password)).status_code == 200


def test_a_worker_replaces_damaged_replicas() -> None:
    with cluster(workers=1, single_process=True) as made:
        master, worker = made.nodes
        made.call(master, "/agents", method="POST", json={"name": "web"})
        made.call(master, "/agents/001/group/default", method="PUT")
        wait_until(lambda: agents(worker) == [("web", "default")], what="the worker has the registry")
        worker.stop()
        overwrite_pages(worker.paths.security_db)
        overwrite_pages(worker.paths.agents_db)

        worker.start()
        made.wait_whole()
        wait_until(lambda: agents(worker) == [("web", "default")], what="the worker has the registry again")
        wait_until(lambda: logs_in(worker, made.password), what="the worker has the users again")
        log = (worker.paths.logs / "ossec.log").read_text()
        for file in (worker.paths.security_db, worker.paths.agents_db):
            assert len(list(file.parent.glob(f"{file.name}.damaged-*"))) >= 1
            assert f"{file} is damaged" in log
