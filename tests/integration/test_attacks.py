"""Attacks on agents of three nodes: counted as one, answered at agents wherever they are."""

import json
import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from secmon.agents.wire.keys import AgentKey
from secmon.daemons.run_files import daemon_states
from secmon.simulator import PROFILES, Fleet, Options
from tests.integration.conftest import ANSWERED_BY_ALL, ANSWERED_BY_ONE, ANSWERING_AGENT, RECEIVER, SENT_ON
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import TIMING
from tests.simulator.background import Background, running, server_of
from tests.waiting import wait_until

SSH = "1:/var/log/auth.log:Nov 14 10:12:01 web sshd[811]: Failed password for ana from 192.0.2.77 port 40022 ssh2"
AT_SEVERAL_HOSTS = "210046"
READY = 100_914
RULES = "".join(
    f'<rule id="{number}" level="7"><match>{word}</match><description>{word}</description></rule>'
    for number, word in (
        (ANSWERED_BY_ALL, "answer by all"),
        (ANSWERED_BY_ONE, "answer by one"),
        (SENT_ON, "send on"),
        (READY, "ready"),
    )
)


@pytest.fixture(scope="module")
def agents(three: RealCluster) -> Iterator[list[Background]]:
    """One agent at each node, which has the files of its group and does not start again."""
    (three.master.paths.etc / "rules" / "answered.xml").write_text(f'<group name="answered,">{RULES}</group>')
    numbers = [f"{ANSWERING_AGENT + at}" for at in range(3)]
    fleets = [
        Fleet([server_of(node)], [key_of(three, number)], options=OPTIONS, profiles=[PROFILES["ubuntu-22.04"]])
        for node, number in zip(three.nodes, numbers, strict=True)
    ]
    with running(fleets[0]) as first, running(fleets[1]) as second, running(fleets[2]) as third:
        made = [first, second, third]
        at = dict(zip(numbers, (node.name for node in three.nodes), strict=True))
        wait_until(lambda: states(three) == {(number, name, "synced") for number, name in at.items()}, what=f"{at}")
        for node, agent in zip(three.nodes, made, strict=True):
            wait_until(partial(knows_rules, node, agent), what=f"{node.name} has the rules in force")
        yield made


OPTIONS = Options(timing=TIMING, versions=("v4.7.0",))


def key_of(three: RealCluster, number: str) -> AgentKey:
    """Of an agent with this id, which is registered for it."""
    body = {"id": number, "name": f"attacked-{number}", "ip": "any", "key": number * 16}
    three.call(three.master, "/agents/insert", method="POST", json=body)
    return AgentKey(number, f"attacked-{number}", "any", number * 16)


def knows_rules(node: RealNode, agent: Background) -> bool:
    """Whether an event of the agent has been judged by the rules of this file; sends one more."""
    send(agent, "1:/var/log/messages:ready")
    return bool(alerts(node, f"{READY}"))


def states(three: RealCluster) -> set[tuple[str, str, str]]:
    """Ids, nodes and states of files of the active agents."""
    items = three.call(three.master, "/agents?status=active&q=name~attacked")["data"]["affected_items"]
    return {(one["id"], one["node_name"], one["group_config_status"]) for one in items}


def alerts(node: RealNode, rule: str) -> list[dict[str, Any]]:
    """Of the node's own file."""
    file = node.paths.logs / "alerts/alerts.json"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [one for one in map(json.loads, lines) if one["rule"]["id"] == rule]


def send(agent: Background, text: str) -> None:
    """One event of the only agent of a fleet."""
    agent.call(lambda: agent.fleet.agents[0].send(text.encode()))


def heard(three: RealCluster, node: RealNode) -> int:
    """Hits of other nodes in the memory of a node's analysis."""
    text = node.request("GET", "/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("secmon_rule_hits_received_total")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if 'result="counted"' in line)


def test_one_address_against_hosts_of_three_nodes(three: RealCluster, agents: list[Background]) -> None:
    last = three.workers[1]
    before = heard(three, last)
    for agent in agents[:2]:
        for _ in range(3):
            send(agent, SSH)
    wait_until(lambda: heard(three, last) >= before + 6, what="the last node knows of the hits at the others")
    send(agents[2], SSH)
    (alert,) = wait_until(lambda: alerts(last, AT_SEVERAL_HOSTS))
    names = sorted(node.name for node in three.nodes[:2])
    numbers = [f"{ANSWERING_AGENT + at}" for at in range(2)]
    assert alert["cluster_hits"] == {"count": 5, "nodes": names, "agents": numbers}
    assert alert["agent"]["id"] == f"{ANSWERING_AGENT + 2}"


def answers(agents: list[Background]) -> Counter[str]:
    """Active responses by the agents that have them."""
    found: Counter[str] = Counter()
    for one in agents:
        found.update(
            command.agent
            for command in one.call(lambda one=one: list(one.fleet.commands))  # type: ignore[misc]
            if command.kind == "active-response"
        )
    return found


def test_an_alert_of_any_node_is_answered_by_all_agents(three: RealCluster, agents: list[Background]) -> None:
    every = Counter(f"{ANSWERING_AGENT + at}" for at in range(3))
    expected = answers(agents)
    for at, agent in enumerate(agents):
        send(agent, f"1:/var/log/messages:answer by all {at}")
        expected += every
        wait_until(lambda expected=expected: answers(agents) == expected, what=f"{expected}")  # type: ignore[misc]


def test_an_alert_of_any_node_is_answered_by_the_agent_that_is_named(
    three: RealCluster, agents: list[Background]
) -> None:
    expected = answers(agents)
    for at, agent in enumerate(agents):
        send(agent, f"1:/var/log/messages:answer by one {at}")
        expected[f"{ANSWERING_AGENT}"] += 1
        wait_until(lambda: answers(agents) == expected, what=f"{expected}")


class SyslogReceiver:
    """Takes what comes to :data:`RECEIVER`, from one connection after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", RECEIVER))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                self._parts.append(data)

    def numbers(self) -> set[int]:
        return {int(one) for one in re.findall(rb'"full_log":"send on (\d+)"', b"".join(self._parts))}

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[SyslogReceiver]:
    """One for all tests: an output keeps its connection."""
    made = SyslogReceiver()
    yield made
    made.close()


def test_kills_of_the_store_and_of_an_output_lose_no_alert(
    three: RealCluster, agents: list[Background], receiver: SyslogReceiver
) -> None:
    """While events flow: each alert is found once, and has come at least once."""
    node, agent, count, killed = three.workers[1], agents[2], 300, set[int]()
    for number in range(count):
        send(agent, f"1:/var/log/messages:send on {number}")
        if number in (60, 180):
            for daemon in ("secmon-db", "secmon-csyslogd"):
                pid = wait_until(partial(running_pid, node, daemon, killed), what=f"{daemon} runs")
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    wait_until(lambda: found(three, node) >= count, what="the store has all alerts")
    wait_until(lambda: len(receiver.numbers()) == count, what="the receiver has all alerts")
    assert found(three, node) == count, "none is there twice"


def running_pid(node: RealNode, daemon: str, killed: set[int]) -> int:
    """Of a daemon that has started; 0 until then: one that is killed before is an error in the logs."""
    started = daemon_states(node.paths, [daemon])[daemon] == "running"
    pid = node.pid(daemon) or 0
    return pid if started and pid not in killed else 0


def found(three: RealCluster, node: RealNode) -> int:
    """Alerts of :data:`SENT_ON` in the store."""
    data = three.call(node, f"/alerts?rule_ids={SENT_ON}&since=now-1h&limit=1")["data"]
    return int(data["total_affected_items"])


def silenced(three: RealCluster, rule: int) -> int:
    """Make a silence at a worker; its id."""
    body = {"until": "now+1h", "reason": "a test"}
    made = three.call(three.workers[0], f"/alerts/silences?rule_ids={rule}", method="POST", json=body)
    return int(made["data"]["affected_items"][0]["id"])


def test_a_silence_is_heeded_by_outputs_and_responses_of_other_nodes(
    three: RealCluster, agents: list[Background], receiver: SyslogReceiver
) -> None:
    node, agent = three.workers[1], agents[2]
    answered, written = answers(agents), len(alerts(node, f"{ANSWERED_BY_ALL}"))
    silences = [silenced(three, rule) for rule in (SENT_ON, ANSWERED_BY_ALL)]
    send(agent, "1:/var/log/messages:send on 1000")
    send(agent, "1:/var/log/messages:answer by all, silently")
    wait_until(lambda: len(alerts(node, f"{ANSWERED_BY_ALL}")) > written, what="the alerts are written")
    for number in silences:
        three.call(three.master, f"/alerts/silences/{number}", method="PUT", json={"until": "now"})
    send(agent, "1:/var/log/messages:send on 1001")
    send(agent, "1:/var/log/messages:answer by all again")
    wait_until(lambda: 1001 in receiver.numbers(), what="what comes after the silence is delivered")
    assert 1000 not in receiver.numbers()
    answered += Counter(f"{ANSWERING_AGENT + at}" for at in range(3))
    wait_until(lambda: answers(agents) == answered, what="what comes after the silence is answered, and only that")
