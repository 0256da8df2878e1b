"""Counts and correlations of Sigma as composites, on events one after the other."""

from typing import Any

import pytest

from tests.importers.sigma.kit import PROCESS, Rule, Translated, rule, windows

SECURITY = {"product": "windows", "service": "security"}
IDS = [f"5f113a8f-8b61-41ca-b90f-{number:012d}" for number in range(10)]


def base(number: int, event_id: int, **more: Any) -> Rule:
    return rule({"selection": {"EventID": event_id}}, SECURITY, id=IDS[number], name=f"rule_{number}", **more)


def correlation(kind: str, rules: list[str], **more: Any) -> Rule:
    inner = {"type": kind, "rules": rules, "timespan": "1m", "group-by": ["IpAddress"], **more}
    inner = {name: value for name, value in inner.items() if value is not None}
    return {"title": "A correlation", "id": IDS[9], "level": "critical", "correlation": inner}


def logon(event_id: int, ip: str = "192.0.2.1", user: str = "u") -> Any:
    return windows("Security", event_id, IpAddress=ip, TargetUserName=user)


def test_a_count_of_events_by_a_field() -> None:
    made = Translated(base(0, 4625), correlation("event_count", ["rule_0"], condition={"gte": 3}))
    assert [one.result for one in made.lines] == ["counted", "imported"]
    number = made.lines[1].id
    assert [made.send(logon(4625, ip), at) for at, ip in enumerate(["192.0.2.1", "192.0.2.2", "192.0.2.1"])] == [[]] * 3
    assert made.send(logon(4625), 5) == [number]
    assert [made.send(logon(4625), at) for at in (100, 130, 161)] == [[]] * 3  # the first is too old


def test_events_of_several_agents_count_together() -> None:
    made = Translated(base(0, 4625), correlation("event_count", ["rule_0"], condition={"gt": 1}))
    first, second = logon(4625), logon(4625)
    assert made.send(first._replace(location=b"[001] (one) any->EventChannel")) == []
    assert made.send(second._replace(location=b"[002] (two) any->EventChannel")) == [made.lines[1].id]


def test_a_rule_makes_alerts_besides_where_the_correlation_says_so() -> None:
    made = Translated(base(0, 4625), correlation("event_count", ["rule_0"], condition={"gte": 2}, generate=True))
    own, counting = (one.id for one in made.lines)
    assert made.send(logon(4625)) == [own]
    assert set(made.send(logon(4625))) == {own, counting}


def test_events_of_several_rules_count_once() -> None:
    other = rule({"selection": {"TargetUserName": "u"}}, SECURITY, id=IDS[1], name="rule_1")
    made = Translated(base(0, 4625), other, correlation("event_count", ["rule_0", "rule_1"], condition={"gte": 3}))
    assert [made.send(logon(number), at) for at, number in enumerate((4625, 4624))] == [[], []]
    assert made.send(logon(4625, user="v"), 3) == [made.lines[2].id]


def test_events_of_several_log_sources_count_together() -> None:
    other = rule({"selection": {"Image": "x"}}, PROCESS, id=IDS[1], name="rule_1")
    made = Translated(
        base(0, 4625),
        other,
        correlation("event_count", ["rule_0", "rule_1"], condition={"gte": 2}, **{"group-by": None}),
    )
    assert made.send(logon(4625)) == []
    assert made.send(windows(Image="x")) == [made.lines[2].id]


def test_a_count_of_values() -> None:
    made = Translated(
        base(0, 4625), correlation("value_count", ["rule_0"], condition={"gte": 3, "field": "TargetUserName"})
    )
    fired = [made.fires(logon(4625, user=user), at) for at, user in enumerate(["a", "a", "b", "a", "b", "c"])]
    assert fired == [False] * 5 + [True]


def test_rules_in_any_order() -> None:
    rules = [base(0, 4625), base(1, 4624), base(2, 4720)]
    made = Translated(*rules, correlation("temporal", ["rule_0", "rule_1", "rule_2"]))
    for order in ((4625, 4624, 4720), (4720, 4624, 4625), (4624, 4720, 4625)):
        ip = f"192.0.2.{order[0] % 100 + order[1] % 10}"
        assert [made.fires(logon(number, ip)) for number in order] == [False, False, True], order
    assert [made.fires(logon(number, "192.0.2.99"), at) for number, at in ((4625, 0), (4624, 50), (4720, 70))][
        -1
    ] is False


def test_rules_in_their_order() -> None:
    made = Translated(base(0, 4625), base(1, 4624), correlation("temporal_ordered", ["rule_0", "rule_1"]))
    assert [made.fires(logon(number)) for number in (4624, 4625, 4624)] == [False, False, True]


def test_one_event_of_both_rules() -> None:
    other = rule({"selection": {"TargetUserName": "root"}}, SECURITY, id=IDS[1], name="rule_1")
    made = Translated(base(0, 4625), other, correlation("temporal", ["rule_0", "rule_1"]))
    assert made.fires(logon(4625, user="root"))


@pytest.mark.parametrize(
    ("condition", "fires_at"),
    [
        ("selection | count() by IpAddress > 2", 3),
        ("selection | count() by IpAddress >= 2", 2),
        ("selection | count(TargetUserName) by IpAddress >= 3", 3),
        ("selection|count() > 3", 4),
    ],
)
def test_aggregations_of_the_older_form(condition: str, fires_at: int) -> None:
    made = Translated(
        rule({"selection": {"EventID": 4625}, "condition": condition, "timeframe": "5m"}, SECURITY, id=IDS[0])
    )
    fired = [made.fires(logon(4625, user=f"user{at}"), at) for at in range(fires_at)]
    assert fired == [False] * (fires_at - 1) + [True]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"condition": {"lt": 3}}, "a count that is lt"),
        ({"condition": {"eq": 3}}, "a count that is eq"),
        ({"condition": {"gte": 1}}, "a count of 1 events"),
        ({"condition": {"gte": 10000}}, "a count of 10000 events"),
        ({"condition": {"gte": 3}, "timespan": "30d"}, "more than 99999 seconds"),
        ({"condition": {"gte": 3}, "rules": ["rule_7"]}, "is not among the files"),
        ({"condition": {"gte": 3, "field": "x"}}, "a count of values"),
        ({"condition": {"gte": 3}, "aliases": {"x": {"rule_0": "a"}}}, "aliases"),
        ({"type": "value_sum", "condition": {"gte": 3, "field": "x"}}, "a correlation of the type value_sum"),
        ({"type": "temporal", "rules": ["rule_0", "rule_0"], "condition": {"gte": 2}}, "names a rule twice"),
        ({"type": "temporal", "rules": ["rule_0", "rule_1"], "condition": "rule_0 and not rule_1"}, "names rules"),
        ({"rules": [IDS[9]], "condition": {"gte": 3}}, "a correlation of correlations"),
    ],
)
def test_what_composites_cannot_say_is_reported(more: dict[str, Any], reason: str) -> None:
    more = {"kind": more.pop("type", "event_count"), "rules": ["rule_0"], **more}
    made = Translated(base(0, 4625), base(1, 4624), correlation(**more))
    assert made.lines[2].result == "untranslated"
    assert reason in made.reason(2)


@pytest.mark.parametrize(
    ("condition", "timeframe", "reason"),
    [
        ("selection | count() by IpAddress < 2", "5m", "a count that is <"),
        ("selection | near other", "5m", "other than count"),
        ("selection | sum(x) > 5", "5m", "other than count"),
        ("selection | count() > 5", None, "without a timeframe"),
        ("selection | count() > 5", "5 hours", ""),
    ],
)
def test_aggregations_that_composites_cannot_say(condition: str, timeframe: str | None, reason: str) -> None:
    detection = {"selection": {"EventID": 4625}, "condition": condition} | (
        {"timeframe": timeframe} if timeframe else {}
    )
    made = Translated(rule(detection, SECURITY))
    assert made.lines[0].result != "imported"
    assert reason in made.reason()


def test_correlations_that_name_each_other_are_reported() -> None:
    one = correlation("temporal", [IDS[9], IDS[8]])
    other = {**correlation("temporal", [IDS[9], IDS[8]]), "id": IDS[8]}
    made = Translated(one, other)
    assert [line.result for line in made.lines] == ["untranslated"] * 2


def test_a_correlation_counts_what_no_alert_is_made_of() -> None:
    """Not even where another rule of Sigma, of a higher level, has matched the event."""
    higher = rule({"selection": {"EventID": 4625}}, SECURITY, id=IDS[5], level="critical")
    made = Translated(base(0, 4625), higher, correlation("event_count", ["rule_0"], condition={"gte": 3}))
    assert [len(made.send(logon(4625), at)) for at in range(3)] == [1, 1, 2]
