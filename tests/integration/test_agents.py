"""What agents live through on a real cluster: nodes die, the master is away, groups change while they connect."""

from collections import Counter
from dataclasses import replace
from hashlib import md5
from typing import Any

from secmon.simulator import Fleet, Options, Timing
from tests.integration.kit import RealCluster, RealNode
from tests.simulator.background import Background, running, server_of
from tests.waiting import wait_until

TIMING = Timing(
    notify=1.0,
    silence=20.0,
    ack_wait=10.0,
    retry=0.3,
    max_retries=1,
    after_enrolment=1.0,
    enrolment_retry=0.5,
    restart=0.2,
    install=1.0,
    report=5.0,
)


def fleet_of(nodes: list[RealNode], count: int, prefix: str, **options: Any) -> Fleet:
    made = Options(timing=options.pop("timing", TIMING), **options)
    return Fleet([server_of(node) for node in nodes], count, prefix=prefix, options=made)


def agents_of(three: RealCluster, prefix: str, node: RealNode | None = None) -> dict[str, dict[str, Any]]:
    """Items by name, as ``node`` returns them."""
    body = three.call(node or three.master, f"/agents?limit=2000&q=name~{prefix}-")
    return {item["name"]: item for item in body["data"]["affected_items"]}


def on(found: dict[str, dict[str, Any]], *fields: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(str(item.get(field)) for field in fields) for item in found.values())


def test_agents_enrol_at_any_node_and_are_seen_from_all(three: RealCluster) -> None:
    with running(fleet_of(three.nodes, 9, "any")) as fleet:
        fleet.until(lambda c: c.connected == 9)
        expected = Counter({("active", node.name): 3 for node in three.nodes})
        for node in three.nodes:
            wait_until(lambda node=node: on(agents_of(three, "any", node), "status", "node_name") == expected)  # type: ignore[misc]
        assert len({key.id for key in fleet.fleet.held_keys}) == 9
    wait_until(lambda: on(agents_of(three, "any"), "status") == Counter({("disconnected",): 9}))


def test_agents_of_a_node_that_dies_go_on_elsewhere(three: RealCluster) -> None:
    victim = three.workers[0]
    with running(fleet_of(three.nodes, 30, "move", labels={"env": "test"})) as fleet:
        fleet.until(lambda c: c.connected == 30)
        wait_until(lambda: on(agents_of(three, "move"), "status") == Counter({("active",): 30}))
        before = agents_of(three, "move")
        assert on(before, "node_name")[(victim.name,)] == 10
        enrolled = fleet.counters.enrolled
        victim.kill()
        try:
            fleet.until(lambda c: c.losses == 10 and c.connected == 30)
            left = {three.master.name, three.workers[1].name}
            wait_until(
                lambda: (
                    {one["node_name"] for one in agents_of(three, "move").values()} == left
                    and on(agents_of(three, "move"), "status") == Counter({("active",): 30})
                ),
                what="all agents active elsewhere",
            )
            after = agents_of(three, "move")
            kept = ("id", "registerIP", "dateAdd", "os", "version", "group")
            assert [[one.get(name) for name in kept] for one in before.values()] == [
                [after[one].get(name) for name in kept] for one in before
            ]
            assert fleet.counters.enrolled == enrolled  # no agent needed a new key
        finally:
            victim.start()
            three.wait_whole()
        assert on(agents_of(three, "move"), "status") == Counter({("active",): 30})


def test_workers_serve_agents_without_the_master_and_report_afterwards(three: RealCluster) -> None:
    with running(fleet_of(three.workers, 20, "apart")) as fleet:
        fleet.until(lambda c: c.connected == 20)
        wait_until(lambda: on(agents_of(three, "apart"), "status") == Counter({("active",): 20}))
        three.master.kill()
        try:
            keepalives, acked = fleet.counters.keepalives, fleet.counters.acked
            fleet.until(lambda c: c.keepalives >= keepalives + 60 and c.acked >= acked + 40)
            assert fleet.counters.losses == 0
            _leave(fleet, 5)
            wait_until(lambda: fleet.counters.connected == 15)
            newcomer = fleet_of(three.workers[:1], 1, "late")
            with running(newcomer) as late:
                late.until(lambda c: c.enrolments_refused >= 1)
                assert "Cannot comunicate with master" in next(iter(newcomer.refusals))
                three.master.start(wait=False)
                late.until(lambda c: c.connected == 1)
        finally:
            if three.master.process is None:
                three.master.start(wait=False)
            three.wait_whole()
        expected = Counter({("active",): 15, ("disconnected",): 5})
        wait_until(lambda: on(agents_of(three, "apart"), "status") == expected, what="reports arrived")


def test_a_group_is_edited_while_its_agents_connect(three: RealCluster) -> None:
    """Whatever was pushed on the way, all end with the last files, and every node and the API agree on that."""
    group = three.master.paths.shared / "default"
    patient = replace(TIMING, notify=2.0, silence=90.0, ack_wait=60.0)
    count = 1000
    with running(fleet_of(three.nodes, count, "many", timing=patient, enrolling=24, send_buffer=65_536)) as fleet:
        for number in range(12):
            (group / "agent.conf").write_text(f"<agent_config>\n  <!-- {number} -->\n</agent_config>\n")
            (group / f"file{number % 3}.txt").write_text(f"{number}\n" * 500)
            seen = fleet.counters.enrolled
            fleet.until(lambda c, seen=seen: c.enrolled >= min(seen + count // 12, count), seconds=120)  # type: ignore[misc]
        fleet.until(lambda c: c.connected == count, seconds=120)
        merged = [node.paths.shared / "default" / "merged.mg" for node in three.nodes]

        def settled() -> bool:
            contents = {path.read_bytes() for path in merged if path.exists()}
            last = contents.pop() if len(contents) == 1 else b""
            return b"<!-- 11 -->" in last and fleet.fleet.sums[md5(last).hexdigest()] == count

        wait_until(settled, seconds=180, what="all agents report the last files")
        assert fleet.counters.pushes_bad == 0
        expected = Counter({("active", "synced"): count})
        wait_until(lambda: on(agents_of(three, "many"), "status", "group_config_status") == expected)


def _leave(fleet: Background, count: int) -> None:
    """Let agents shut down."""

    def leave() -> None:
        for agent in fleet.fleet.agents[:count]:
            agent.stop(send_shutdown=True)

    fleet.call(leave)
