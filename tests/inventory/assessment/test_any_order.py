"""Whatever was lost, repeated or late: after a complete dump the stored checks are those of the agent."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.inventory.assessment.handler import handle_assessment
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.schema import sca_checks, sca_policies
from secmon.simulator.host.assessment import POLICY, Assessment
from tests.inventory.assessment.assessed_agent import Body, Results, check, dump, sent, summary
from tests.inventory.handled_messages import HandledMessages, message_of

AGENTS = count(1)
POLICIES = ("a", "b")

RESULT = st.sampled_from(["passed", "failed", None])
RESULTS = st.tuples(*[RESULT] * 4).map(lambda results: dict(enumerate(results)))
"""Of the same checks: a results hash does not say to which checks its results belong."""
SCANS = st.tuples(st.sampled_from(POLICIES), RESULTS, st.sampled_from(["aa", "bb"]), st.booleans(), st.integers(1, 3))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path_factory.mktemp("store"), handle_assessment)
    yield made
    made.store.close()


def messages_of(policy: str, results: Results, file: str, first: bool, scan: int) -> list[Body]:
    """What an agent may send of one scan."""
    flags = {"first_scan": 1} if first else {}
    head = summary(results, policy=policy, scan=scan, hash_file=file, **flags)
    return [
        head,
        *dump(results, "1", policy=policy, scan=scan, hash_file=file),
        {"type": "policies", "policies": [policy]},
    ]


@settings(max_examples=50)
@given(st.data())
def test_a_dump_makes_the_store_equal_to_the_agent(node: HandledMessages, data: st.DataObject) -> None:
    agent = next(AGENTS)
    earlier = [body for scan in data.draw(st.lists(SCANS, max_size=3)) for body in messages_of(*scan)]
    if earlier:
        node.handle(*sent(*data.draw(st.lists(st.sampled_from(earlier), max_size=20)), agent=agent))
    truth = {policy: data.draw(RESULTS) for policy in data.draw(st.sets(st.sampled_from(POLICIES)))}
    flags = {"first_scan": 1} if data.draw(st.booleans()) else {}
    bodies = [summary(truth[policy], policy=policy, scan=9, **flags) for policy in truth]
    answers = node.handle(*sent(*bodies, {"type": "policies", "policies": list(truth)}, agent=agent)).answers
    rounds = 0
    while answers:
        rounds += 1
        assert rounds <= 2, "requests end"
        assert len({text[: text.rindex(":")] for _, text in answers}) == len(answers), "one request for each policy"
        asked = [text.removeprefix("sca-dump:").split(":") for _, text in answers]
        answered = [
            body for policy, flag in asked for body in dump(truth[policy], flag, policy=policy, scan=10 + rounds)
        ]
        answers = node.handle(*sent(*answered, agent=agent)).answers
    stored: dict[str, Results] = {}
    for row in node.rows(sca_checks, agent):
        stored.setdefault(row["policy_id"], {})[row["id"]] = (
            None if row["result"] == "not applicable" else row["result"]
        )
    assert stored == truth
    assert {row["id"] for row in node.rows(sca_policies, agent)} == set(truth)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=9)
    | st.sampled_from(["demo", "\0", "\ud800", "x" * 5000, 2**63, -(2**63) - 1, 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TEMPLATES: list[Body] = [
    check(1, "passed", rules=["f:/x"], compliance={"tsc": "1"}),
    summary({1: "passed"}),
    *dump({}, "0"),
    {"type": "policies", "policies": ["demo"]},
]


@st.composite
def hostile_bodies(draw: st.DrawFn) -> dict[str, Any]:
    body = dict(draw(st.sampled_from(TEMPLATES)))
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=2)):
        body[name] = draw(VALUES)
    if isinstance(body.get("check"), dict):
        names = ["id", "title", "result", "reason", "file", "rules", "compliance"]
        body["check"] = body["check"] | draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=3))
    return body


@settings(max_examples=50)
@given(st.lists(hostile_bodies(), max_size=4))
def test_hostile_messages_are_stored_or_malformed(node: HandledMessages, bodies: list[dict[str, Any]]) -> None:
    usable: list[AgentMessage] = []
    for body in bodies:
        message = message_of("sca", body, agent=0)
        try:
            node.handle(message)
        except MalformedMessage:
            continue
        usable.append(message)
    changes = node.handle(*usable)
    assert all(len(f"#!-{text}".encode()) <= 4096 for _, text in changes.answers)


@given(st.integers(0, 2**32), st.integers(2, 30), st.integers(1, 5))
@settings(max_examples=20)
def test_a_simulated_host_is_known_after_its_first_dump(
    node: HandledMessages, seed: int, checks: int, scans: int
) -> None:
    agent, host = next(AGENTS), Assessment(Random(seed), lambda: datetime.fromtimestamp(1714640000, UTC), checks)
    for number in range(scans):
        answers = node.handle(*(message_of("sca", dict(body), agent=agent) for body in host.scan())).answers
        assert answers == ([] if number else [(agent, f"sca-dump:{POLICY}:1")])
        for _, text in answers:
            dumped = host.dump(first=text.endswith(":1"))
            assert node.handle(*(message_of("sca", dict(body), agent=agent) for body in dumped)).answers == []
    assert len(node.rows(sca_checks, agent)) == checks
