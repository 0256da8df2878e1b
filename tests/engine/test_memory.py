"""What composites look back on: kept by agent and by the values that must be the same, and bounded."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rules_kit import Bench, below, node_log, nodes

COMPOSITE = '<rule id="100331" level="10" frequency="{}" timeframe="60"><if_matched_sid>100330</if_matched_sid>{}<description>x</description></rule>'


def test_old_events_go_and_leave_nothing() -> None:
    bench = Bench(nodes(below(100330, 5, "<id>^401</id>"), COMPOSITE.format(8, "<same_srcip/>")), memory=64)
    for number in range(500):
        bench.node("GET", code=401, ip=f"192.0.2.{number % 250}", at=0)
    kept = bench.state.composites[100331]
    assert sum(len(one) for one in kept.values()) == len(bench.state.recent) <= 64
    assert all(kept.values()), "no key without events"


def test_a_pattern_looks_back_on_all_events_of_the_agent() -> None:
    bench = Bench(
        nodes(
            below(100330, 5, "<match>GET</match>"),
            below(100332, 4, "<match>PUT</match>"),
            '<rule id="100331" level="10" frequency="3" timeframe="60"><if_sid>100300</if_sid>'
            "<if_matched_regex>code 401</if_matched_regex><description>x</description></rule>",
        )
    )
    found = [bench.node(action, code=code) for action, code in (("GET", 401), ("PUT", 401), ("GET", 200), ("PUT", 401))]
    assert found == [100330, 100332, 100331, 100332], "the third has two before it; then they are used up"


AGENTS = st.sampled_from(["001", "002"])
EVENTS = st.lists(
    st.tuples(st.integers(0, 20), AGENTS, st.sampled_from(["a", "b"]), st.sampled_from(["/x", "/y"])), max_size=25
)


@settings(max_examples=150, deadline=None)
@given(
    EVENTS,
    st.integers(2, 4),
    st.sampled_from(["", "<same_user/>", "<same_user/><different_url/>", "<global_frequency/>"]),
)
def test_the_search_is_that_of_the_reference(
    drawn: list[tuple[int, str, str, str]], frequency: int, extra: str
) -> None:
    """Against a search through all events, newest first (ruleset.md 6.8)."""
    bench = Bench(nodes(below(100330, 5, "<id>^401</id>"), COMPOSITE.format(frequency, extra)))
    known: list[dict[str, object]] = []
    at = 0
    for pause, agent, user, url in drawn:
        at += pause
        event: dict[str, object] = {"at": at, "agent": agent, "user": user, "url": url, "used": False}
        log = node_log("GET", url=url, user=user, code=401)
        found = bench.rule(log, at=at, location=f"[{agent}] (a) 192.0.2.9->/x")
        assert (found == 100331) is _expected(event, known, frequency, extra)
        if found == 100330:
            known.append(event)


def _expected(event: dict[str, object], known: list[dict[str, object]], frequency: int, extra: str) -> bool:
    count, first = 0, None
    for earlier in reversed(known):
        if int(str(event["at"])) - int(str(earlier["at"])) > 60:
            return False
        if "global" not in extra and earlier["agent"] != event["agent"]:
            continue
        if "same_user" in extra and earlier["user"] != event["user"]:
            continue
        if "different_url" in extra and earlier["url"] == event["url"]:
            continue
        if earlier["used"]:
            return False
        count += 1
        if count == frequency - 1:
            if first is not None:
                first["used"] = True
            return True
        first = first or earlier
    return False
