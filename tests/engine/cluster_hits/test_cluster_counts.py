"""Composites that are counted over the cluster: three engines against one that sees all events."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rule_hits import Firing, HitsOf
from tests.engine.cluster_hits.cluster_bench import ClusterBench, NodeBench
from tests.engine.rules_kit import NODE_DECODER, START, Bench, below, node_log, nodes, refused

FREQUENCY, TIMEFRAME = 4, 60
MARK = "<options>count_in_cluster</options>"
BASE = below(100330, 5, "<id>^401</id><group>refused,</group>")


def composite(
    body: str, *, mark: str = MARK, attributes: str = f'frequency="{FREQUENCY}"', number: int = 100331
) -> str:
    return (
        f'<rule id="{number}" level="10" timeframe="{TIMEFRAME}" {attributes}>{body}{mark}'
        "<description>x</description></rule>"
    )


BY_ID = "<if_matched_sid>100330</if_matched_sid>"
SAME = BY_ID + "<same_srcip/><global_frequency/>"
COMPOSITES = {
    "agent": composite(BY_ID),
    "address": composite(SAME),
    "different": composite(SAME + "<different_url/>"),
    "distinct": composite(SAME + "<distinct_field>url</distinct_field>"),
    "group": composite("<if_matched_group>refused</if_matched_group><same_srcip/><global_frequency/>"),
    "own group": composite(
        "<if_matched_group>refused</if_matched_group><same_srcip/><global_frequency/><group>refused,</group>"
    ),
    "two": composite(SAME, attributes=""),
    "two, silent": composite(SAME, attributes='ignore="20"'),
    "silent": composite(SAME, attributes=f'frequency="{FREQUENCY}" ignore="30"'),
    "all": below(100332, 5, "<id>^500</id>")
    + composite(
        "<if_sid>100332</if_sid><if_matched_all>100330,100332</if_matched_all><same_srcip/><global_frequency/>",
        attributes="",
    ),
}
RULESETS = {name: nodes(BASE, one) for name, one in COMPOSITES.items()}

BESIDE = nodes(
    BASE,
    composite(SAME + "<different_url/>", number=100335, mark="").replace('level="10"', 'level="9"'),
    composite(SAME, number=100334, attributes='frequency="99"'),
)
"""A rule without the mark beside one that has it, and never fires."""

NODE, AGENT = st.integers(0, 2), st.sampled_from(["001", "002"])
ADDRESS, URL = st.sampled_from(["192.0.2.1", "192.0.2.2"]), st.sampled_from(["/x", "/y", "/" + "z" * 90])
EVENTS = st.lists(
    st.tuples(st.integers(1, 25), NODE, AGENT, ADDRESS, URL, st.sampled_from([401, 401, 500])), max_size=30
)


@settings(max_examples=120)
@given(st.sampled_from(sorted(COMPOSITES)), EVENTS)
def test_nodes_that_hear_at_once_are_one_engine(name: str, drawn: list[tuple[int, int, str, str, str, int]]) -> None:
    compiled = RULESETS[name]
    cluster, alone = ClusterBench(compiled), Bench(compiled)
    at = 0
    for pause, node, agent, address, url, code in drawn:
        at += pause
        log = node_log("GET", url=url, ip=address, code=code)
        expected = alone.run(log, at, f"[{agent}] (a) 192.0.2.9->/x")
        found = cluster.seen(node, log, at, agent)
        assert (found.rule and found.rule.id) == (expected.rule and expected.rule.id)
        if found.event.elsewhere is not None:
            assert len(found.event.previous) + found.event.elsewhere.hits == len(expected.event.previous)


@settings(max_examples=40)
@given(drawn=EVENTS, data=st.data())
def test_a_bad_link_invents_nothing(drawn: list[tuple[int, int, str, str, str, int]], data: st.DataObject) -> None:
    """Messages late, lost, doubled, in any order: whatever fires has as many events in its time frame."""
    cluster, at, known = ClusterBench(RULESETS["address"]), 0, list[tuple[int, str]]()
    late: list[list[HitsOf]] = [[], [], []]

    def through(to: int, messages: list[HitsOf]) -> list[HitsOf]:
        late[to].extend(messages)
        arrived = data.draw(st.lists(st.sampled_from(late[to]), max_size=4)) if late[to] else []
        return [msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=HitsOf) for one in arrived]

    for pause, node, agent, address, url, code in drawn:
        at += pause
        verdict = cluster.nodes[node].seen(node_log("GET", url=url, ip=address, code=code), at, agent)
        cluster.exchange(through)
        if verdict.rule is not None and verdict.rule.id == 100331:
            assert sum(one == address and at - when <= TIMEFRAME for when, one in known) >= FREQUENCY - 1
        elif code == 401:
            known.append((at, address))


@settings(max_examples=30)
@given(drawn=EVENTS)
def test_what_is_heard_changes_no_rule_without_the_mark(drawn: list[tuple[int, int, str, str, str, int]]) -> None:
    cluster, alone = ClusterBench(BESIDE), [Bench(BESIDE) for _ in range(3)]
    at = 0
    for pause, node, agent, address, url, code in drawn:
        at += pause
        log = node_log("GET", url=url, ip=address, code=code)
        found, expected = cluster.seen(node, log, at, agent), alone[node].run(log, at, f"[{agent}] (a) 192.0.2.9->/x")
        assert (found.rule and found.rule.id) == (expected.rule and expected.rule.id)
        assert found.event.previous == expected.event.previous


def refusals(node: NodeBench, count: int, *, at: float = 0, address: str = "192.0.2.1") -> list[int | None]:
    """The rules of failed logins, a tenth of a second apart."""
    log = node_log("GET", ip=address, code=401)
    verdicts = [node.seen(log, at + step / 10, "001") for step in range(count)]
    return [one.rule.id if one.rule else None for one in verdicts]


def test_an_attack_on_three_nodes_is_one_alert() -> None:
    cluster = ClusterBench(RULESETS["address"])
    a, b, c = cluster.nodes
    assert refusals(a, 1) + refusals(b, 2, at=1) == [100330] * 3
    cluster.exchange()
    verdict = c.seen(node_log("GET", ip="192.0.2.1", code=401), 2, "007")
    assert verdict.rule is not None
    assert verdict.rule.id == 100331
    assert verdict.event.elsewhere is not None
    assert verdict.event.elsewhere == (3, ("a", "b"), ("001",))
    cluster.exchange()
    assert refusals(a, 1, at=3) + refusals(b, 1, at=4) == [100330] * 2, "the hits are used up on all nodes"


def test_hits_that_are_repeated_after_a_kill_count_once() -> None:
    a, b = ClusterBench(RULESETS["address"], 2).nodes
    refusals(a, 2)
    b.hear(a.reported())
    again = NodeBench("a", RULESETS["address"])
    refusals(again, 2)
    b.hear(again.reported())
    assert refusals(b, 2, at=1) == [100330, 100331]
    assert (b.memory.counters.counted, b.memory.counters.repeated) == (2, 2)


def test_hits_of_another_ruleset_are_counted_and_left_out() -> None:
    """During a rollout: the rule is not there yet, or compares other fields."""
    other = ClusterBench(RULESETS["different"], 1).nodes[0]
    here, plain = NodeBench("b", RULESETS["address"]), NodeBench("c", nodes(BASE))
    refusals(other, 3)
    reported = other.reported()
    for node in (here, plain):
        node.hear(reported)
        assert node.memory.counters.unknown == 3
        assert node.memory.counters.counted == 0
    assert refusals(here, 3, at=1) == [100330] * 3


def test_another_ruleset_forgets_what_it_counts_otherwise() -> None:
    a, b = ClusterBench(RULESETS["address"], 2).nodes
    refusals(a, 3)
    b.hear(a.reported())
    b.memory.use(RULESETS["different"].rules.by_id.values())
    b.memory.use(RULESETS["address"].rules.by_id.values())
    assert refusals(b, 1, at=1) == [100330]


def test_clocks_that_differ_are_corrected() -> None:
    a, b = ClusterBench(RULESETS["address"], 2).nodes
    refusals(a, 3, at=10_000)
    late = a.reported()
    b.hear(late)
    assert refusals(b, 1, at=1) == [100330], "they are far from its time frame"
    b.hear([HitsOf(node="d", ahead=-10_000, hits=one.hits) for one in late])
    assert refusals(b, 1, at=2) == [100331]


def test_a_node_fills_its_own_share_only() -> None:
    a, b = ClusterBench(RULESETS["address"], 2, size=50).nodes
    refusals(a, 3)
    b.hear(a.reported())
    refusals(a, 1, address="192.0.2.9")
    (one,) = a.reported()[0].hits
    b.hear([HitsOf(node="evil", hits=[msgspec.structs.replace(one, number=number) for number in range(500)])])
    assert b.memory.counters.counted == 503
    assert b.memory.kept == 53
    assert refusals(b, 1, at=1) == [100331]


def test_a_flood_from_one_address_leaves_room_for_others() -> None:
    node = NodeBench("a", RULESETS["address"])
    refusals(node, 3000)
    refusals(node, 1, at=301, address="192.0.2.77")
    (reported,) = node.reported()
    assert reported.hits[-1].counted[0].key == (b"192.0.2.77",)
    assert len(reported.hits) < 10
    assert node.memory.outgoing.superfluous > 2000
    assert node.memory.outgoing.dropped == 0


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (BY_ID, True),
        ("<if_matched_group>refused</if_matched_group>", True),
        ("<if_matched_regex>x</if_matched_regex>", False),
        ("<match>x</match>", False),
    ],
)
def test_only_composites_with_a_memory_can_have_the_mark(body: str, fits: bool) -> None:
    rule = f'<rule id="100331" level="10"><if_sid>100330</if_sid>{body}{MARK}<description>x</description></rule>'
    base = '<rule id="100330" level="5"><category>syslog</category><description>base</description><group>refused,</group></rule>'
    assert refused(NODE_DECODER, f'<group name="x,">{base}{rule}</group>') == (0 if fits else 1274)


def test_values_that_do_not_fit_the_rule_are_left_out() -> None:
    """A node that lies cannot bring down the analysis of another."""
    a, b = ClusterBench(RULESETS["different"], 2).nodes
    refusals(a, 1)
    (reported,) = a.reported()
    (one,) = reported.hits[0].counted
    for values in ({"key": ()}, {"contrast": ()}, {"contrast": (b"a", b"b")}, {"distinct": (b"x",)}, {"rule": 7}):
        wrong = msgspec.structs.replace(one, **values)
        hit = msgspec.structs.replace(reported.hits[0], counted=(wrong,))
        b.hear([HitsOf(node="a", hits=[hit], firings=[Firing(0, 0, 1, 0, 1, wrong)])])
    assert (b.memory.counters.unknown, b.memory.counters.counted) == (10, 0)
    assert refusals(b, 2) == [100330] * 2


def test_a_time_in_the_future_silences_no_rule() -> None:
    a, b = ClusterBench(RULESETS["silent"], 2).nodes
    refusals(a, FREQUENCY)
    (reported,) = a.reported()
    later = [msgspec.structs.replace(one, time=1 << 50, newest=1 << 50) for one in reported.firings]
    b.hear([HitsOf(node="a", firings=later)], START.timestamp())
    assert refusals(b, FREQUENCY, at=40)[-1] == 100331
