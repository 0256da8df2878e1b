"""The demo's preparations; the running demo is tested with the whole cluster."""

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from secmon.agents.wire.keys import AgentKey
from secmon.common.paths import Paths
from secmon.config.api import load_api_config
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from secmon.daemons.daemon import StartFailed
from secmon.daemons.demo.agents import agents_folder
from secmon.daemons.demo.nodes import ADDRESS, Demo, DemoNode
from secmon.daemons.demo.ports import free_port, is_free
from secmon.daemons.supervisor_lock import SupervisorLock


def demo_of(root: Path, *, workers: int) -> Demo:
    """A demo with ports of its own, which no outgoing connection takes: a real one may run beside this test."""
    first = 10_000 + os.getpid() % 100 * 10
    return Demo(root, workers=workers, api_port=first, cluster_port=first + 1000, agent_port=first + 2000)


def test_port_in_use_is_passed_over() -> None:
    with socket.socket() as used:
        used.bind((ADDRESS, 0))
        used.listen()
        port = used.getsockname()[1]
        assert not is_free(ADDRESS, port)
        assert free_port(ADDRESS, port, set()) > port


def test_ports_promised_to_others_are_passed_over() -> None:
    first = free_port(ADDRESS, 40000, set())
    assert free_port(ADDRESS, first, {first}) > first
    pair = free_port(ADDRESS, first, {first + 1}, count=2)
    assert pair > first + 1


def test_three_nodes_that_belong_together(root: Path) -> None:
    demo_of(root, workers=2)._make()
    names = ["master-node", "worker1", "worker2"]
    sections = [load_main_config(Paths(root / name)).cluster for name in names]
    assert [section.node_name for section in sections] == names
    assert [section.node_type for section in sections] == ["master", "worker", "worker"]
    assert len({(section.name, section.key, section.port, section.master) for section in sections}) == 1
    configs = [load_api_config(Paths(root / name)) for name in names]
    assert len({config.port for config in configs}) == 3
    assert {config.host for config in configs} == {ADDRESS}
    nodes = [DemoNode(name, Paths(root / name)) for name in names]
    assert len({port for node in nodes for port in node.agent_ports}) == 6
    ports = [load_internal_options(Paths(root / name)).get("clusterd.peer_port") for name in names]
    assert ports == [-1, 0, 0]
    assert stat.S_IMODE((root / "admin-password").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "cluster-key").stat().st_mode) == 0o640


def test_second_run_keeps_what_the_first_made(root: Path) -> None:
    def contents() -> list[bytes]:
        return [path.read_bytes() for path in (*sorted(root.glob("*/etc/ossec.conf")), root / "admin-password")]

    demo_of(root, workers=1)._make()
    before = contents()
    demo_of(root, workers=1)._make()
    assert contents() == before


def test_fresh_removes_the_demo_and_nothing_else(root: Path) -> None:
    demo = demo_of(root, workers=1)
    demo._make()
    (root / "notes.txt").touch()
    demo._remove()
    assert [path.name for path in root.iterdir()] == ["notes.txt"]


def test_demo_that_runs_is_refused(root: Path) -> None:
    demo_of(root, workers=1)._make()
    paths = Paths(root / "worker1")
    lock = SupervisorLock(paths.root)
    lock.acquire()
    try:
        with pytest.raises(StartFailed, match="runs already"):
            asyncio.run(demo_of(root, workers=1).run(fresh=True))
    finally:
        lock.release()
    assert paths.main_config.exists()


def test_port_taken_since_is_named(root: Path) -> None:
    demo = demo_of(root, workers=0)
    demo._make()
    port = load_api_config(Paths(root / "master-node")).port
    with socket.socket() as other:
        other.bind((ADDRESS, port))
        other.listen()
        with pytest.raises(StartFailed, match=f"port {port} of master-node is in use"):
            demo._make()


def test_instructions_can_be_pasted(root: Path) -> None:
    demo = demo_of(root, workers=2)
    demo._make()
    text = demo._instructions()
    password = (root / "admin-password").read_text().strip()
    for expected in (
        f"-u admin:{password} -X POST",
        "/cluster/nodes",
        "/cluster/configuration/validation",
        " stop --root ",
        " start --root ",
    ):
        assert expected in text


def test_agents_come_to_every_node(root: Path) -> None:
    demo = demo_of(root, workers=2)
    demo._make()
    servers = demo._servers()
    assert len({server.port for server in servers} | {server.enrolment_port for server in servers}) == 6
    assert "12 simulated agents" in demo._instructions()


def test_demo_without_agents_does_not_speak_of_them(root: Path) -> None:
    first = 10_000 + os.getpid() % 100 * 10
    demo = Demo(root, workers=0, agents=0, api_port=first, cluster_port=first + 1000, agent_port=first + 2000)
    demo._make()
    assert "simulated" not in demo._instructions()


def test_fresh_forgets_the_agents(root: Path) -> None:
    demo = demo_of(root, workers=0)
    agents_folder(root).save({"a": AgentKey("001", "a", "any", "k" * 64)}, {})
    demo._remove()
    assert not (root / "agents").exists()
