"""The modules of upgrades as a node has them, and the way to the master."""

from pathlib import Path

import pytest

from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.config.main import AgentPorts
from secmon.daemons.install import install
from secmon.daemons.master_client import MasterClient
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.upgrade_modules import shown_modules, upgrade_modules
from tests.integration.kit import free_port

pytestmark = pytest.mark.anyio

WORKER = ClusterSection(
    name="eu", node_name="w", node_type="worker", key="k" * 32, nodes=["127.0.0.1"], bind_addr="127.0.0.1"
)


def node(paths: Paths, cluster: ClusterSection | None) -> Node:
    install(paths, cluster=cluster, agent_ports=AgentPorts(connections=free_port()))
    section = "<agent-upgrade><max_threads>2</max_threads></agent-upgrade>"
    with paths.main_config.open("a") as file:
        file.write(f"<ossec_config>{section}</ossec_config>\n")
    return open_node(read_installation(paths))


@pytest.mark.parametrize(("cluster", "others"), [(None, {"tasks"}), (WORKER, set())])
async def test_modules(root: Path, cluster: ClusterSection | None, others: set[str]) -> None:
    made = node(Paths(root / "n"), cluster)
    assert set(upgrade_modules(made, MasterClient(made, "test"))) == {"upgrades", "reports of upgrades"} | others
    shown = [{"agent-upgrade": {"enabled": "yes", "max_threads": 2, "chunk_size": 16384}}]
    assert shown_modules(made) == [*shown, *([{"task-manager": {"enabled": "yes"}}] if others else [])]
    made.security.close()


async def test_the_master_cannot_be_asked_without_a_cluster_daemon(root: Path) -> None:
    made = node(Paths(root / "n"), WORKER)
    master = MasterClient(made, "test")
    with pytest.raises(SecmonError) as caught:
        await master.call("PUT /internal/upgrades/take", {"limit": 1})
    assert caught.value.code == 3012
    await master.close()
    made.security.close()
