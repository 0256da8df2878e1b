"""Silent sources: one alert each way, and none for anything that the cluster does."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from secmon.agents.sources.events import MAX_EVENTS
from secmon.common.errors import SecmonError
from secmon.config.silent_sources import ExpectedSource, SilentSourceSettings
from tests.agents.sources.world import STEP, SimulatedCluster

_UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failing example is short already, and takes long."""
QUARTER = 20
"""Steps, longer than the shortest silence."""


@pytest.fixture
def cluster(tmp_path: Path) -> SimulatedCluster:
    made = SimulatedCluster(tmp_path / "cluster")
    made.learned()
    made.steps(3)
    return made


def test_a_location_that_stops_and_comes_back_is_reported_once_each(cluster: SimulatedCluster) -> None:
    cluster.mute.add((1, "/log/a"))
    cluster.steps(14)
    assert cluster.events == []
    cluster.steps(40)
    [event] = cluster.events
    assert event.startswith("secmon: Source silent: '/log/a', no event for ")
    assert event.endswith(" s, expected within 900 s.")
    [listed] = cluster.listed()
    assert (listed.agent, listed.name, listed.location, listed.expected_seconds) == (1, "agent1", "/log/a", 900)
    cluster.mute.clear()
    cluster.steps(QUARTER)
    assert [event.partition(",")[0] for event in cluster.events[1:]] == ["secmon: Source back: '/log/a'"]
    assert cluster.listed() == []


def test_an_agent_that_sends_nothing_is_one_silence(cluster: SimulatedCluster) -> None:
    cluster.mute |= {(1, "/log/a"), (1, "/log/b")}
    cluster.steps(40)
    assert [event.partition(",")[0] for event in cluster.events] == ["secmon: Agent silent: 'agent1'"]
    cluster.mute.discard((1, "/log/a"))
    cluster.steps(10)
    assert [event.partition(",")[0] for event in cluster.events[1:]] == ["secmon: Agent back: 'agent1'"]
    cluster.steps(QUARTER)  # /log/b has the time that it always has, from the return on
    assert [event.partition(",")[0] for event in cluster.events[2:]] == ["secmon: Source silent: '/log/b'"]


def test_a_disconnected_agent_is_not_silent(cluster: SimulatedCluster) -> None:
    cluster.away.add(1)
    cluster.steps(QUARTER * 3)
    cluster.away.clear()
    cluster.steps(QUARTER)
    assert cluster.events == []


def test_a_silence_outlives_the_master_and_the_agents_move(cluster: SimulatedCluster) -> None:
    cluster.mute.add((1, "/log/a"))
    cluster.steps(QUARTER * 2)
    cluster.change_master()
    cluster.node_of[1] = "beta"
    cluster.steps(QUARTER * 2)
    cluster.restart("alpha", killed=False)
    cluster.change_master()
    cluster.steps(QUARTER * 2)
    assert len(cluster.events) == 1, "one silence, one event"
    assert [(one.location, one.expected_seconds) for one in cluster.listed()] == [("/log/a", 900)]
    cluster.mute.clear()
    cluster.steps(2)
    assert [event.partition(",")[0] for event in cluster.events[1:]] == ["secmon: Source back: '/log/a'"]


def test_an_irregular_source_and_one_that_is_new_are_never_reported(tmp_path: Path) -> None:
    cluster = SimulatedCluster(tmp_path / "cluster")
    cluster.learned(["/log/a"], pause=13 * 3600)
    cluster.steps(3)  # /log/b is new
    cluster.mute |= {(1, "/log/a"), (1, "/log/b")}
    cluster.steps(60 * 26)
    assert cluster.events == []


def test_what_is_configured_for_a_group_counts_from_the_first_event(tmp_path: Path) -> None:
    expected = (
        ExpectedSource(group="lab"),
        ExpectedSource(group="web", location="/log/a*", interval=5 * STEP),
        ExpectedSource(group="web"),
    )
    cluster = SimulatedCluster(tmp_path / "cluster", settings=SilentSourceSettings(expected=expected))
    cluster.steps(3)
    cluster.mute |= {(1, "/log/a"), (1, "/log/b"), (2, "/log/b")}
    cluster.steps(QUARTER * 2)
    [event] = cluster.events
    assert event.startswith("secmon: Source silent: '/log/a'")
    assert event.endswith("expected within 300 s.")


def test_many_at_once_are_one_event_more(tmp_path: Path) -> None:
    cluster = SimulatedCluster(tmp_path / "cluster", agents_of_all=MAX_EVENTS + 7)
    cluster.learned()
    cluster.steps(3)
    cluster.mute = {(number, "/log/a") for number in cluster.node_of}
    cluster.steps(QUARTER)
    assert len(cluster.events) == MAX_EVENTS + 1
    assert cluster.events[-1] == "1:secmon-monitord:secmon: Sources silent: '7' more at the same time."
    assert len(cluster.listed()) == MAX_EVENTS + 7


@pytest.mark.parametrize(("code", "logged"), [(3012, 0), (3023, 1)], ids=["the node stops", "no answer"])
def test_a_round_that_fails_is_made_up_for(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture, code: int, logged: int
) -> None:
    cluster.mute.add((1, "/log/a"))
    cluster.failure = SecmonError(code)
    cluster.steps(QUARTER)
    assert cluster.events == []
    cluster.failure = None
    cluster.steps(QUARTER * 2)
    [event] = cluster.events
    assert event.startswith("secmon: Source silent: '/log/a'")
    assert sum(one.levelname == "ERROR" for one in caplog.records) == logged


def test_a_removed_agent_is_forgotten(cluster: SimulatedCluster) -> None:
    cluster.mute.add((1, "/log/a"))
    cluster.steps(QUARTER)
    with cluster.store.write() as connection:
        connection.exec_driver_sql("DELETE FROM agents WHERE id = 1")
    del cluster.node_of[1]
    cluster.steps(2)
    assert cluster.listed() == []
    assert len(cluster.events) == 1


Trouble = Callable[[SimulatedCluster, int], None]


def _during(name: str, **state: bool) -> Trouble:
    def trouble(cluster: SimulatedCluster, steps: int) -> None:
        node = cluster.nodes[name]
        before = {what: getattr(node, what) for what in state}
        for what, value in state.items():
            setattr(node, what, value)
        cluster.steps(steps)
        for what, value in before.items():
            setattr(node, what, value)

    return trouble


def _down(name: str, other: str, *, killed: bool, moving: bool) -> Trouble:
    def trouble(cluster: SimulatedCluster, steps: int) -> None:
        cluster.nodes[name].up = False
        if moving:
            cluster.node_of = dict.fromkeys(cluster.node_of, other)
        cluster.steps(steps)
        cluster.restart(name, killed=killed)
        cluster.nodes[name].up = True

    return trouble


def _move(cluster: SimulatedCluster, steps: int) -> None:
    cluster.node_of = {number: "alpha" if where == "beta" else "beta" for number, where in cluster.node_of.items()}
    cluster.steps(steps % 3)


def _new_master(cluster: SimulatedCluster, steps: int) -> None:
    cluster.change_master()


def _clock(name: str | None, seconds: int) -> Trouble:
    def trouble(cluster: SimulatedCluster, steps: int) -> None:
        clock = cluster.clock if name is None else cluster.nodes[name].clock
        cluster.set_clock(clock, seconds)
        cluster.steps(1)

    return trouble


TROUBLES: list[Trouble] = [
    *(_during("alpha", **{what: value}) for what, value in (("behind", True), ("full", True), ("reporting", False))),
    *(_down("alpha", "beta", killed=killed, moving=moving) for killed in (False, True) for moving in (False, True)),
    _move, _new_master,
    *(_clock(name, seconds) for name in (None, "alpha") for seconds in (-7200, 7200)),
]  # fmt: skip


@given(
    troubles=st.lists(st.tuples(st.sampled_from(TROUBLES), st.integers(1, 25), st.integers(0, 4)), max_size=4),
    stopped=st.booleans(),
)
@settings(max_examples=10, phases=_UNSHRUNK, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_that_happens_to_the_cluster_silences_a_source(
    tmp_path: Path, troubles: list[tuple[Trouble, int, int]], stopped: bool
) -> None:
    cluster = SimulatedCluster(tmp_path / "cluster")
    cluster.learned()
    cluster.steps(2)
    for trouble, steps, calm in troubles:
        trouble(cluster, steps)
        cluster.steps(calm)
    assert cluster.events == []
    if stopped:
        cluster.mute.add((1, "/log/a"))
        cluster.steps(60)  # the wait begins again with each trouble, and ends
        assert [event.partition(",")[0] for event in cluster.events] == ["secmon: Source silent: '/log/a'"]
