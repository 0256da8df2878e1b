"""A cluster whose nodes are upgraded one after the other, from the release before (docs/upgrade-secmon.md)."""

import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from secmon.common.sqlite.files import files_of
from secmon.common.sqlite.migration import copies_of
from secmon.daemons.install import renew_ruleset
from secmon.security.store.schema import SINCE_GENERATION_3
from tests.compat.releases import PREVIOUS, extract, with_release
from tests.compat.test_golden_stores import HERE as GOLDEN
from tests.compat.test_golden_stores import PASSWORD
from tests.integration.kit import RealCluster, RealNode, cluster
from tests.integration.nodelogs import troubles
from tests.waiting import wait_until

MISUNDERSTOOD = re.compile(r"Traceback|could not be brought up to date: (?!3023: )|were refused")
"""What a log says when nodes do not understand each other. 3023: the connection to the master was lost meanwhile."""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release before."""
    return extract(PREVIOUS, tmp_path_factory.mktemp("previous"))


def as_before(release: Path) -> Callable[[RealCluster], None]:
    """Have all nodes run that release, with its ruleset, on stores as it makes them."""

    def prepare(made: RealCluster) -> None:
        for node in made.nodes:
            node.prefix = with_release(release)
            shutil.rmtree(node.paths.root / "ruleset")
            shutil.copytree(release / "ruleset", node.paths.root / "ruleset")
            for store in (node.paths.security_db, node.paths.agents_db, node.paths.tasks_db):
                if store.exists():
                    with closing(sqlite3.connect(store)) as raw:
                        raw.execute("DROP TABLE alembic_version")
                        if store == node.paths.security_db:
                            for table in SINCE_GENERATION_3:
                                raw.execute(f"DROP TABLE {table}")
                            raw.execute("UPDATE meta SET value = '2' WHERE name = 'schema_version'")
                        raw.commit()

    return prepare


def upgrade(running: RealCluster, node: RealNode) -> None:
    node.stop()
    node.prefix = ()
    renew_ruleset(node.paths)
    node.start(wait=False)
    running.wait_whole()


def uses_alembic(node: RealNode) -> bool:
    with closing(sqlite3.connect(node.paths.security_db)) as raw:
        return bool(raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchall())


def work(running: RealCluster, mark: str) -> None:
    """Change every kind of replicated state through the worker, and see each change on both nodes."""
    [worker] = running.workers
    user = running.call(worker, "/security/users", method="POST", json={"username": mark, "password": PASSWORD})
    [made] = user["data"]["affected_items"]
    running.call(worker, f"/security/users/{made['id']}/roles?role_ids=1", method="POST")
    for node in running.nodes:
        sign_in = "/security/user/authenticate?raw=true"
        token = node.request("POST", sign_in, auth=(mark, PASSWORD)).text
        for other in running.nodes:  # a token of one node is good on all
            assert other.request("GET", "/agents", token=token).status_code == 200, (node.name, other.name)
    running.call(worker, "/groups", method="POST", json={"group_id": mark})
    agent = running.call(worker, "/agents", method="POST", json={"name": mark, "ip": "any"})["data"]["id"]
    running.call(worker, f"/agents/{agent}/group/{mark}", method="PUT")
    listed = f"/agents?agents_list={agent}&select=name,group"
    wait_until(lambda: all(_groups(running, node, listed) == [mark] for node in running.nodes), what="agents copied")
    running.wait_converged()
    running.call(worker, "/security/user/revoke", method="PUT")
    for node in running.nodes:
        assert node.request("GET", "/agents", token=token).status_code == 401
        versions = {item["version"] for item in running.call(node, "/cluster/nodes")["data"]["affected_items"]}
        assert versions == {"4.8.2"}


def silence(running: RealCluster) -> None:
    """Tables that the release before does not know: its workers go on without them."""
    body = {"until": "now+1h", "reason": "the upgrade"}
    running.call(running.master, "/alerts/silences?level=1-3", method="POST", json=body)


def silences(node: RealNode) -> int:
    with closing(sqlite3.connect(node.paths.security_db)) as raw:
        return int(raw.execute("SELECT count(*) FROM silences").fetchone()[0])


def _groups(running: RealCluster, node: RealNode, listed: str) -> list[str] | None:
    items = running.call(node, listed)["data"]["affected_items"]
    return items[0].get("group") if items else None


@pytest.mark.parametrize("order", [("master-node", "worker1"), ("worker1", "master-node")], ids=" first, then ".join)
def test_a_cluster_is_upgraded_node_by_node(previous: Path, order: Sequence[str]) -> None:
    with cluster(workers=1, single_process=True, before_start=as_before(previous)) as running:
        work(running, "before")
        assert not any(uses_alembic(node) for node in running.nodes), "the release before runs"
        nodes = {node.name: node for node in running.nodes}
        for step, name in enumerate(order):
            upgrade(running, nodes[name])
            assert uses_alembic(nodes[name])
            if uses_alembic(running.master):
                silence(running)
            work(running, f"step{step}")
        made = silences(running.master)
        assert made
        wait_until(lambda: all(silences(node) == made for node in running.nodes), what="silences copied")
        upgrade(running, running.master)  # a later restart finds everything in order
        for node in running.nodes:
            text = (node.paths.logs / "ossec.log").read_text()
            assert MISUNDERSTOOD.search(text) is None, text
            # Once: a worker that is upgraded after the master fetches the tables that it was not sent before.
            assert text.count("differs from the master") <= (node is not running.master), text
            assert troubles(node) == []


def test_a_store_of_generation_1_is_migrated_at_the_start() -> None:
    def prepare(made: RealCluster) -> None:
        for file in files_of(made.master.paths.security_db):
            file.unlink(missing_ok=True)
        shutil.copy(GOLDEN / "generation_1/security.db", made.master.paths.security_db)
        made.password = PASSWORD

    with cluster(workers=0, single_process=True, before_start=prepare) as running:
        assert running.call(running.master, "/security/users/me")["data"]["affected_items"][0]["username"] == "admin"
        [copy] = copies_of(running.master.paths.security_db)
        assert f"before it is {copy}" in (running.master.paths.logs / "ossec.log").read_text()
        running.master.stop()
        running.master.start()
        assert copies_of(running.master.paths.security_db) == [copy]
