"""Side trees: alerts of their own, besides the ordinary rule of an event."""

from secmon.engine.engine import Verdict
from tests.engine.rules_kit import NODE_DECODER, Bench, Lines, below, node_log, refused, ruleset

BASE = '<rule id="100300" level="0"><decoded_as>node</decoded_as><description>base</description></rule>'
SIDE = '<rule id="300000" level="0" noalert="1" side_tree="yes"><decoded_as>node</decoded_as><description>s</description></rule>'


def bench(*rules: str) -> Bench:
    return Bench(ruleset(NODE_DECODER, f'<group name="node,">{BASE}{SIDE}{"".join(rules)}</group>'))


def ids(verdict: Verdict) -> tuple[int | None, list[int | None]]:
    first, *others = [one.rule.id if one.rule else None for one in (verdict, *verdict.beside)]
    return first, others


def test_an_event_has_the_ordinary_rule_and_that_of_each_side_tree() -> None:
    other = '<rule id="300100" level="4" side_tree="yes"><match>/x</match><description>root</description></rule>'
    made = bench(
        below(100301, 5, "<action>GET</action>"),
        below(300001, 3, "<action>GET</action>", parent=300000),
        below(300002, 9, "<url>/x</url>", parent=300000),
        other,
    )
    assert ids(made.run(node_log("GET"))) == (100301, [300002, 300100])
    assert ids(made.run(node_log("GET", "/y"))) == (100301, [300001])
    assert ids(made.run(node_log("PUT", "/y"))) == (100300, [])
    assert ids(made.run(node_log("GET"), trace=Lines())) == (100301, [300002, 300100])


def test_a_match_of_level_0_in_a_side_tree_is_an_exception() -> None:
    made = bench(
        below(300001, 3, "<action>GET</action>", parent=300000),
        below(300002, 0, "<url>/health</url>", parent=300000),
    )
    assert ids(made.run(node_log("GET"))) == (100300, [300001])
    assert ids(made.run(node_log("GET", "/health"))) == (100300, [])


def test_composites_of_both_trees_count_by_themselves() -> None:
    made = bench(
        below(100301, 5, "<action>GET</action>"),
        '<rule id="100302" level="10" frequency="3"><if_matched_sid>100301</if_matched_sid><description>x</description></rule>',
        below(300001, 5, "<action>GET</action>", parent=300000),
        '<rule id="300002" level="10" frequency="4"><if_matched_sid>300001</if_matched_sid><description>x</description></rule>',
    )
    found = [ids(made.run(node_log("GET"), at)) for at in range(8)]
    assert [main for main, _ in found] == [100301, 100301, 100302, 100301, 100301, 100302, 100301, 100301]
    assert [side for _, side in found] == [[300001]] * 3 + [[300002]] + [[300001]] * 3 + [[300002]]


def test_a_composite_by_pattern_counts_an_event_once() -> None:
    made = bench(
        below(100301, 5, "<action>GET</action>"),
        below(300001, 5, "<action>GET</action>", parent=300000),
        '<rule id="100302" level="10" frequency="3"><if_sid>100301</if_sid><if_matched_regex>GET</if_matched_regex><description>x</description></rule>',
    )
    assert [ids(made.run(node_log("GET"), at))[0] for at in range(3)] == [100301, 100301, 100302]


def test_previous_output_is_that_of_the_own_tree() -> None:
    made = bench(
        below(100301, 5, "<action>GET</action>"),
        below(300001, 5, "<action>GET</action>", parent=300000),
        '<rule id="300002" level="10" frequency="3"><if_matched_sid>300001</if_matched_sid><description>x</description></rule>',
    )
    verdicts = [made.run(node_log("GET"), at) for at in range(3)]
    assert len(verdicts[2].beside[0].event.previous) == 2
    assert verdicts[2].event.previous == []


def test_a_root_of_a_side_tree_has_no_parent_and_no_memory() -> None:
    root = '<rule id="300000" level="3" side_tree="yes" {}>{}<description>x</description></rule>'
    for attributes, body in (
        ("", "<if_sid>1</if_sid>"),
        ("", "<if_fts/>"),
        ("", "<check_diff/>"),
        ('frequency="3"', "<if_matched_sid>1</if_matched_sid>"),
    ):
        assert refused(NODE_DECODER, f'<group name="g,">{root.format(attributes, body)}</group>') == 1274
