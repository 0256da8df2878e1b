"""Silent agents: events, return and removal."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from secmon.agents.registry import registry
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.silent_agents import SilenceMonitor, SilenceSettings
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Sink:
    """A journal that accepts a given number of lines at once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.room = 1000
        self.away = False

    async def record(self, lines: Sequence[bytes]) -> int:
        if self.away:
            raise SecmonError(1014, "secmon-remoted")
        taken = lines[: self.room]
        self.lines += [line.decode() for line in taken]
        return len(taken)


class Watch:
    """Agents and a monitor, at times of our choosing."""

    def __init__(self, root: Path, settings: SilenceSettings) -> None:
        self.store = AgentStore(root / "agents.db")
        self.clock = ManualClock()
        self.sink = Sink()
        self.counters = Counters()
        self.settings = settings
        self.monitor = self.another()

    def another(self) -> SilenceMonitor:
        return SilenceMonitor(
            self.store, self.store, self.settings, sink=self.sink, clock=self.clock, counters=self.counters
        )

    def now(self) -> int:
        return int(self.clock.now().timestamp())

    def enrol(self, name: str, address: str = "any") -> int:
        with self.store.write() as connection:
            new = registry.New(name=name, address=address)
            return registry.add(connection, new, now=self.now()).entry.id

    def says(self, agent: int, status: str = "active") -> None:
        self.set(agent, connection_status=status, last_keepalive=self.now(), status_code=0, disconnection_time=0)

    def set(self, agent: int, **values: Any) -> None:
        with self.store.write() as connection:
            connection.execute(update(agents).where(agents.c.id == agent).values(**values))

    def row(self, agent: int) -> Any:
        with self.store.read() as connection:
            return connection.execute(agents.select().where(agents.c.id == agent)).one_or_none()

    async def after(self, seconds: float) -> list[str]:
        """The events from now until ``seconds`` have passed."""
        before = len(self.sink.lines)
        self.clock.advance(seconds)
        await self.monitor.tick()
        return self.sink.lines[before:]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path, SilenceSettings(disconnection_seconds=60, alert_seconds=30))


async def test_silence_is_found_and_reported_later(watch: Watch) -> None:
    one, two = watch.enrol("web-01"), watch.enrol("web-02", "10.0.0.0/16")
    watch.says(one)
    watch.says(two, "pending")
    assert await watch.after(60) == []
    assert watch.row(one).connection_status == "active"
    assert await watch.after(1) == []
    assert (watch.row(one).connection_status, watch.row(one).status_code) == ("disconnected", 4)
    assert watch.row(two).disconnection_time == watch.now()
    assert await watch.after(29) == []
    assert await watch.after(1) == [
        "1:[001] (web-01) any->secmon-monitord:ossec: Agent disconnected: 'web-01-any'.",
        "1:[002] (web-02) 10.0.0.0->secmon-monitord:ossec: Agent disconnected: 'web-02-10.0.0.0'.",
    ]
    assert await watch.after(1000) == []


async def test_addresses_with_colons_are_escaped(watch: Watch) -> None:
    one = watch.enrol("six", "2001:0DB8:0000:0000:0000:0000:0000:0017")
    watch.says(one)
    [line] = await watch.after(200)
    assert line.startswith("1:[001] (six) 2001|:0DB8|:")
    assert line.endswith("'six-2001:0DB8:0000:0000:0000:0000:0000:0017'.")


async def test_agents_that_are_back_in_time_are_not_reported(watch: Watch) -> None:
    one = watch.enrol("web-01")
    watch.says(one)
    await watch.after(61)
    watch.says(one)
    assert await watch.after(59) == []
    assert await watch.after(2) == []
    assert watch.row(one).connection_status == "disconnected"


async def test_an_agent_that_was_removed_meanwhile(watch: Watch) -> None:
    one = watch.enrol("web-01", "10.0.0.0/16")
    watch.says(one)
    await watch.after(61)
    with watch.store.write() as connection:
        registry.remove(connection, [one])
    assert await watch.after(1) == ["1:secmon-monitord:ossec: Agent removed: 'web-01-10.0.0.0'."]


async def test_a_restart_loses_no_event(watch: Watch) -> None:
    one = watch.enrol("web-01")
    watch.says(one)
    await watch.after(61)
    watch.monitor = watch.another()
    watch.monitor._load_silent()
    assert len(await watch.after(30)) == 1
    watch.monitor = watch.another()
    watch.monitor._load_silent()
    assert await watch.after(30) == []


async def test_events_wait_for_the_journal(watch: Watch) -> None:
    for number in range(5):
        watch.says(watch.enrol(f"web-{number}"))
    watch.sink.away = True
    assert await watch.after(100) == []
    watch.sink.away, watch.sink.room = False, 2
    assert len(await watch.after(1)) == 5
    watch.sink.room = 0
    watch.says(1)
    assert await watch.after(100) == []


async def test_old_agents_are_removed(tmp_path: Path) -> None:
    watch = Watch(tmp_path, SilenceSettings(disconnection_seconds=60, delete_after_seconds=600, purge=True))
    one, two, never = watch.enrol("old"), watch.enrol("alive"), watch.enrol("never")
    watch.says(one)
    await watch.after(61)
    for _ in range(9):
        watch.says(two)
        await watch.after(59)
    assert watch.row(one) is not None
    for _ in range(2):
        watch.says(two)
        await watch.after(59)
    assert watch.row(one) is None
    assert watch.sink.lines[-1] == "1:secmon-monitord:ossec: Agent removed: 'old-any'."
    assert watch.row(two) is not None
    assert watch.row(never) is not None


async def test_settings() -> None:
    config = parse_main_config(
        "<ossec_config><global><agents_disconnection_time>2m</agents_disconnection_time>"
        "<agents_disconnection_alert_time>5s</agents_disconnection_alert_time></global>"
        "<auth><purge>yes</purge></auth></ossec_config>"
    )
    options = InternalOptions.defaults().with_overrides({"monitord.delete_old_agents": 2})
    assert SilenceSettings.of(config, options) == SilenceSettings(120, 5, True, 120, True)
    assert SilenceSettings.of(parse_main_config("<ossec_config/>"), InternalOptions.defaults()) == SilenceSettings()


async def test_a_failing_store_is_logged_once(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    with watch.store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE agents RENAME TO hidden")
    watch.clock.advance(60)  # the monitor begins
    with caplog.at_level(logging.ERROR):
        await watch.monitor.tick()
        await watch.monitor.tick()
    assert len(caplog.records) == 1
    with watch.store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE hidden RENAME TO agents")
    one = watch.enrol("web-01")
    watch.says(one)
    assert len(await watch.after(200)) == 1


@pytest.mark.parametrize("jump", [7200, -200_000, 6])
async def test_a_clock_that_is_set_makes_nobody_silent(watch: Watch, jump: int) -> None:
    """Agents get the time for a keepalive by the new clock; who sends none is silent after all."""
    one, two = watch.enrol("alive"), watch.enrol("dead")
    await watch.after(61)
    for agent in (one, two):
        watch.says(agent)
    watch.clock.set_wall(watch.clock.now() + timedelta(seconds=jump))
    assert await watch.after(1) == []
    watch.says(one)
    for _ in range(2):
        assert await watch.after(29) == []
        watch.says(one)
    assert (watch.row(one).connection_status, watch.row(two).connection_status) == ("active", "active")
    await watch.after(10)
    await watch.after(50)
    assert (watch.row(one).connection_status, watch.row(two).connection_status) == ("active", "disconnected")


async def test_a_master_that_was_down_waits_for_reports_of_workers(watch: Watch) -> None:
    one = watch.enrol("of-a-worker")
    watch.says(one)
    watch.clock.advance(3600)
    watch.monitor = watch.another()
    assert await watch.after(1) == []
    assert watch.row(one).connection_status == "active"
    await watch.after(60)
    assert watch.row(one).connection_status == "disconnected"
