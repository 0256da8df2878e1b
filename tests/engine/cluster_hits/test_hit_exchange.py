"""From the analysis thread to the master, and from there to the thread of another node."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from secmon.cluster.rule_hits import Hits, HitsOf
from secmon.common.background import cancel
from secmon.common.errors import SecmonError
from secmon.engine.cluster_hits.hit_exchange import HitExchange
from tests.engine.analysis_kit import Analysis, analysing
from tests.engine.cluster_hits.cluster_bench import NodeBench
from tests.engine.rules_kit import below, node_log, nodes
from tests.waiting import until, wait_until

RULES = nodes(
    below(100330, 5, "<id>^401</id>"),
    '<rule id="100331" level="10" frequency="4"><if_matched_sid>100330</if_matched_sid><same_srcip/><global_frequency/>'
    "<options>count_in_cluster</options><description>x</description></rule>",
)
EVENT = f"1:[001] (a) 192.0.2.9->/x:{node_log('GET', code=401)}"


async def keep(hits: Hits) -> None:
    """Hits stay where they are."""


def reported(analysis: Analysis) -> Hits:
    """What the thread has to report."""
    memory = analysis.thread.pipeline.engine.state.cluster
    assert memory is not None
    return memory.outgoing.take() or Hits()


def test_a_hit_is_named_by_its_place_in_the_journal(tmp_path: Path) -> None:
    with analysing(tmp_path, RULES, report_hits=keep) as analysis:
        analysis.send([EVENT, EVENT])
        analysis.drained()
        analysis.send([EVENT], journal=1)
        analysis.drained()
        found = reported(analysis)
    assert [(one.journal, one.number) for one in found.hits] == [(0, 0), (0, 1), (1, 0)]
    with analysing(tmp_path, RULES, report_hits=keep) as again:
        again.send([EVENT])
        again.drained()
        assert [(one.journal, one.number) for one in reported(again).hits] == [(0, 2)]


def test_the_thread_counts_what_others_have_sent(tmp_path: Path) -> None:
    with analysing(tmp_path / "a", RULES, report_hits=keep) as first:
        first.send([EVENT] * 3)
        first.drained()
        message = HitsOf(node="a", hits=reported(first).hits)
    with analysing(tmp_path / "b", RULES, report_hits=keep) as second:
        memory = second.thread.pipeline.engine.state.cluster
        assert memory is not None
        HitExchange(memory, keep).received(msgspec.msgpack.encode([message]))
        wait_until(lambda: memory.counters.counted == 3, what="also while no events come")
        second.send([EVENT])
        second.drained()
        (alert,) = second.alerts()
    assert alert["rule"]["id"] == "100331"
    assert alert["cluster_hits"] == {"count": 3, "nodes": ["a"], "agents": ["001"]}


def test_without_a_cluster_nothing_is_noted(tmp_path: Path) -> None:
    with analysing(tmp_path, RULES) as analysis:
        assert analysis.thread.pipeline.engine.state.cluster is None
        analysis.send([EVENT] * 4)
        analysis.drained()
        assert [one["rule"]["id"] for one in analysis.alerts()] == ["100330"] * 3 + ["100331"]
        assert all("cluster_hits" not in one for one in analysis.alerts())


@pytest.mark.anyio
@pytest.mark.parametrize(("code", "logged"), [(3012, 0), (3023, 1)], ids=["the node stops", "no master"])
async def test_hits_gather_and_a_master_that_is_away_costs_them(
    code: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    node, sent, away = NodeBench("a", RULES), list[Hits](), False

    async def send(hits: Hits) -> None:
        if away:
            raise SecmonError(code)
        sent.append(hits)

    exchange = HitExchange(node.memory, send)
    running = asyncio.create_task(exchange.run())
    await asyncio.sleep(0)
    try:
        for at in range(3):
            node.seen(node_log("GET", code=401), at, "001")
        await until(lambda: exchange.counters()["sent"] == 3)
        assert sum(map(len, sent)) == 3
        away = True
        node.seen(node_log("GET", code=401, ip="192.0.2.2"), 3, "001")
        await until(lambda: exchange.counters()["unsent"] == 1)
        away = False
        node.seen(node_log("GET", code=401, ip="192.0.2.3"), 4, "001")
        await until(lambda: exchange.counters()["sent"] == 4)
        assert sum(one.levelname == "ERROR" for one in caplog.records) == logged
    finally:
        await cancel(running)


def test_what_is_no_message_is_refused() -> None:
    exchange = HitExchange(NodeBench("a", RULES).memory, keep)
    for data in (b"", b"\xc1", msgspec.msgpack.encode([{"node": 1}]), msgspec.msgpack.encode({"node": "a"})):
        with pytest.raises(msgspec.MsgspecError):
            exchange.received(data)
