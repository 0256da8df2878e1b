"""Groups on a real cluster: any node is asked, the master builds, all nodes have the files, agents get them."""

from pathlib import Path

from secmon.agents.groups.merged_files.format import latest, split
from secmon.agents.names import group_hash
from secmon.simulator import Fleet, Options, Timing
from tests.integration.kit import RealCluster, RealNode
from tests.simulator.background import running, server_of
from tests.waiting import wait_until

TIMING = Timing(notify=1.0, silence=20.0, ack_wait=10.0, retry=0.3, after_enrolment=1.0, restart=0.2)


def merged(node: RealNode, joined: str) -> dict[str, bytes]:
    """The files that ``node`` has for agents of these groups; none while there is no merged file."""
    folder = f"var/multigroups/{group_hash(joined)}" if "," in joined else f"etc/shared/{joined}"
    try:
        return dict(latest(split((node.paths.root / folder / "merged.mg").read_bytes()).files))
    except FileNotFoundError:
        return {}


def configure(three: RealCluster, node: RealNode, group: str, label: str) -> None:
    text = f"<agent_config><labels><label key='site'>{label}</label></labels></agent_config>"
    headers = {"Content-Type": "application/xml"}
    three.call(node, f"/groups/{group}/configuration", method="PUT", content=text, headers=headers)


def test_a_group_from_its_making_to_its_end(three: RealCluster, tmp_path: Path) -> None:
    worker = three.workers[0]
    for name in ("web", "db"):
        three.call(worker, "/groups", method="POST", json={"group_id": name})
    configure(three, worker, "web", "north")
    for node in three.nodes:
        wait_until(lambda node=node: b"north" in merged(node, "web").get("agent.conf", b""))  # type: ignore[misc]
        assert merged(node, "web")["ar.conf"].startswith(b"restart-ossec0 - ")
    fleet = Fleet([server_of(worker)], 2, prefix="g", options=Options(timing=TIMING, groups=("web",), unpack=tmp_path))
    with running(fleet) as held:
        held.until(lambda c: c.connected == 2)
        body = three.call(worker, "/groups/web/agents")
        ids = [item["id"] for item in body["data"]["affected_items"]]
        assert len(ids) == 2
        three.call(worker, f"/agents/{ids[0]}/group/db", method="PUT")
        for node in three.nodes:
            wait_until(lambda node=node: "agent.conf" in merged(node, "web,db"))  # type: ignore[misc]
        wait_until(lambda: synced(three, worker, ids[0]) and synced(three, worker, ids[1]))
        wait_until(lambda: sum(b"north" in file.read_bytes() for file in tmp_path.rglob("agent.conf")) == 2)
        configure(three, three.master, "web", "south")
        wait_until(lambda: b"south" in merged(worker, "web,db")["agent.conf"])
        wait_until(lambda: synced(three, three.master, ids[0]))
        body = three.call(three.master, "/groups?groups_list=web", method="DELETE")
        assert (body["data"]["affected_items"], body["data"]["affected_agents"]) == (["web"], ids)
        wait_until(lambda: synced(three, worker, ids[0]) and synced(three, worker, ids[1]))
        for node in three.nodes:
            wait_until(lambda node=node: not (node.paths.shared / "web").exists())  # type: ignore[misc]
            wait_until(lambda node=node: not merged(node, "web,db"))  # type: ignore[misc]
        groups = {item["id"]: item["group"] for item in three.call(worker, "/agents?q=id>0")["data"]["affected_items"]}
        assert groups == {ids[0]: ["db"], ids[1]: ["default"]}


def synced(three: RealCluster, node: RealNode, agent: str) -> bool:
    [item] = three.call(node, f"/agents/{agent}/group/is_sync")["data"]["affected_items"]
    return bool(item["synced"])
