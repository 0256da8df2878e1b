"""Default rules that compare hosts: cases are of one host, so that these have theirs here, on one node and on three."""

import pytest

from tests.engine.cluster_hits.cluster_bench import ClusterBench
from tests.engine.rules_kit import Bench
from tests.ruleset.default import default_ruleset

SSH = "Nov 14 10:12:01 web1 sshd[811]: Failed password for ana from {} port 40022 ssh2"
WEB = '{} - - [14/Nov/2023:22:13:20 +0000] "GET /page{} HTTP/1.1" 404 162 "-" "curl/8.5.0"'
OF_MANY_HOSTS = {210046: 6, 220199: 12}
"""Rules, and the events that complete each."""


def line(rule: int, address: str) -> str:
    return SSH.format(address) if rule == 210046 else WEB.format(address, 1)


def place(agent: int) -> str:
    return f"[{agent:03}] (host{agent}) 192.0.2.{agent}->/var/log/x.log"


@pytest.mark.parametrize(("rule", "count"), OF_MANY_HOSTS.items())
def test_one_address_at_many_hosts(rule: int, count: int) -> None:
    here = Bench(default_ruleset())
    found = [here.rule(line(rule, "192.0.2.77"), at, place(at)) for at in range(1, count + 1)]
    assert (found.count(rule), found[-1]) == (1, rule)
    elsewhere = Bench(default_ruleset())
    assert rule not in [elsewhere.rule(line(rule, "192.0.2.77"), at * 10, place(7)) for at in range(count)], "one host"
    others = Bench(default_ruleset())
    assert rule not in [others.rule(line(rule, f"192.0.2.{at}"), at, place(at)) for at in range(1, count + 1)]


@pytest.mark.parametrize(("rule", "count"), OF_MANY_HOSTS.items())
def test_one_address_at_hosts_of_several_nodes(rule: int, count: int) -> None:
    cluster = ClusterBench(default_ruleset())
    found = []
    for at in range(1, count + 1):
        verdict = cluster.seen(at % 3, line(rule, "192.0.2.77"), at, f"{at:03}")
        found.append(verdict.rule and verdict.rule.id)
    assert (found.count(rule), found[-1]) == (1, rule)
    assert verdict.event.elsewhere is not None
    assert len(verdict.event.elsewhere.nodes) == 2


def test_rules_that_are_counted_in_the_cluster_count_all_agents() -> None:
    """The default ones: an attack is to be seen, whichever node its hosts are connected to."""
    marked = [one for one in default_ruleset().rules.by_id.values() if one.composite and one.composite.in_cluster]
    assert {one.id for one in marked} == {210046, 220199, 232031, 232032, 233208}
    assert all(one.composite.every_agent for one in marked if one.composite)
