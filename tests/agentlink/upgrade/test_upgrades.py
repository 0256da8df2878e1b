"""From a task to the report, with the real link and simulated agents (agent-link.md 10)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha1
from pathlib import Path

import pytest

from secmon.agentlink.upgrade.dialects import dialect_of
from secmon.agentlink.upgrade.expiry import TaskExpiry
from secmon.agentlink.upgrade.failures import UpgradeFailure
from secmon.agentlink.upgrade.jobs import Timing, Upgrades
from secmon.agentlink.upgrade.packages import Packages
from secmon.agentlink.upgrade.reports import ReportListener
from secmon.agentlink.upgrade.task_source import RegistryTaskSource, TaskSource
from secmon.agentlink.upgrade.transfer import OPEN_ATTEMPTS, Package, Transfer
from secmon.agents.link.client import LinkClient
from secmon.agents.registry.store import AgentStore
from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.lifecycle import Job, Work
from secmon.agents.tasks.store import TaskStore
from secmon.agents.wakeups import WakeupListener, wake
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.upgrades import TaskSettings, UpgradeSettings
from secmon.simulator import PROFILES, Fleet, Misbehaviour, Options, Server
from secmon.simulator import Timing as FleetTiming
from tests.agentlink.field import Field, many
from tests.agentlink.field import field as open_field
from tests.manual_clock import ManualClock
from tests.operations.fields import MemoryLink
from tests.simulator.test_agents import QUICK
from tests.waiting import until

pytestmark = pytest.mark.anyio

PACKAGE = b"WPK256\0" + bytes(range(256)) * 300
STEADY = replace(QUICK, notify=0.5, silence=10.0, ack_wait=10.0)
SOON = Timing(poll=0.02, renew=0.05, retry=0.02, longest=0.05, open=0.01)


class Forwarded(list[tuple[int, bytes]]):
    """Reports that also go to those who listen at the local socket."""

    def __init__(self, link: Field) -> None:
        super().__init__()
        self._link = link

    def append(self, item: tuple[int, bytes]) -> None:
        super().append(item)
        self._link.server.local.report(*item)


@dataclass
class Site:
    """A node with agents, upgrade tasks, and the modules that run them."""

    link: Field
    store: TaskStore
    fleet: Fleet
    counters: Counters = field(default_factory=Counters)

    def request(self, *agents: int, work: Work = Work()) -> None:  # noqa: B008
        with self.store.write() as connection:
            now = int(SystemClock().now().timestamp())
            lifecycle.create(connection, [(agent, "node01") for agent in agents], "upgrade", work, now=now)

    def status(self, agent: int) -> tuple[str, str | None]:
        with self.store.read() as connection:
            found = lifecycle.last(connection, [agent])[agent]
        return found.status, found.error_message

    async def until(self, agent: int, status: str) -> str | None:
        await until(lambda: self.status(agent)[0] == status, what=f"{status}, not {self.status(agent)}")
        return self.status(agent)[1]


@asynccontextmanager
async def site(
    folder: Path,
    versions: Sequence[str],
    *,
    settings: UpgradeSettings | None = None,
    bad: Misbehaviour | None = None,
    timing: FleetTiming = STEADY,
    pace: Timing = SOON,
) -> AsyncIterator[Site]:
    """Agents of these versions, connected; packages in the node's own folder."""
    clock = SystemClock()
    async with open_field(folder, answer_seconds=1.0) as link:
        link.reports = Forwarded(link)
        keys = many(link.store, len(versions))
        await link.server.registry.refresh()
        misbehave = {bad: len(versions)} if bad else {}
        options = Options(timing=timing, versions=tuple(versions), misbehave=misbehave, reenrol=False)
        store, client = TaskStore(link.paths.tasks_db), LinkClient(link.paths.agent_link_socket)
        profiles = [PROFILES["ubuntu-22.04"], PROFILES["windows-11"], PROFILES["amazon-2023"]]
        async with Fleet([Server("127.0.0.1", link.tcp)], keys, options=options, profiles=profiles) as fleet:
            await fleet.until(lambda c: c.connected == len(versions) and c.acked >= 2 * len(versions))
            await link.server.states.flush()
            here = Site(link, store, fleet)
            task_source = RegistryTaskSource(store, "node01", clock)
            packages = Packages(link.paths, clock, configured="")
            upgrades = Upgrades(
                task_source, client, packages, link.store, settings or UpgradeSettings(),
                wakeups=WakeupListener(link.paths.upgrades_socket), clock=clock, counters=here.counters, timing=pace,
            )  # fmt: skip
            listener = ReportListener(task_source, client, counters=here.counters, retry_seconds=0.02)
            work = [asyncio.create_task(each.run()) for each in (upgrades, listener)]
            try:
                yield here
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                store.close()


def fill(site: Site, version: str = "v4.8.2", package: bytes = PACKAGE) -> None:
    """Packages for every kind of agent that the fleet has."""
    base = site.link.paths.packages
    kinds = {"windows": "windows", "linux/x86_64": "linux_x86_64", "linux/aarch64": "linux_aarch64"}
    for folder, kind in kinds.items():
        (base / folder).mkdir(parents=True, exist_ok=True)
        (base / folder / "versions").write_text(f"{version} {sha1(PACKAGE).hexdigest()}\n")
        (base / folder / f"wazuh_agent_{version}_{kind}.wpk").write_bytes(package)


async def test_new_tasks_start_at_a_wakeup_and_when_others_end(tmp_path: Path) -> None:
    never = SOON._replace(poll=3600.0)
    async with site(tmp_path, ["v4.7.0"] * 3, settings=UpgradeSettings(max_threads=1), pace=never) as here:
        fill(here)
        await until(here.link.paths.upgrades_socket.exists)
        here.request(1, 2, 3)
        wake(here.link.paths.upgrades_socket)
        for agent in (1, 2, 3):
            assert await here.until(agent, "Done") is None


async def test_agents_of_both_dialects_are_upgraded(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.1.5", "v4.0.4", "v4.7.0"]) as here:
        fill(here)
        here.request(1, 2, 3)
        for agent in (1, 2, 3):
            assert await here.until(agent, "Done") is None
        assert here.fleet.counters.upgrades == 3
        assert {agent.dialect.version for agent in here.fleet.agents} == {"v4.8.2"}
        await until(lambda: here.fleet.counters.clears == 3, what="the results to be cleared")
        assert here.counters.snapshot()["upgrades.done"] == 3


async def test_a_failed_installation_is_reported_and_cleared(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"], bad=Misbehaviour.BAD_UPGRADE) as here:
        fill(here)
        here.request(1)
        assert await here.until(1, "Failed") == "Upgrade procedure exited with error code"
        await until(lambda: here.fleet.counters.clears == 1, what="the result to be cleared")


async def test_late_reports_are_cleared_too(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"], timing=replace(STEADY, report=2.0)) as here:
        fill(here)
        here.request(1)
        await here.until(1, "In progress")
        with here.store.write() as connection:
            lifecycle.expire(connection, now=1 << 40, limit=1)
        assert here.status(1)[0] == "Timeout"
        await until(lambda: here.fleet.counters.clears == 1, what="the result to be cleared")
        assert here.status(1)[0] == "Timeout"


async def test_an_upgrade_to_a_version_without_reports(tmp_path: Path) -> None:
    async with site(tmp_path, ["v3.13.6"]) as here:
        fill(here, "v4.0.4")
        here.request(1, work=Work(version="v4.0.4"))
        assert await here.until(1, "Legacy") is None
        await here.fleet.until(lambda c: c.upgrades == 1)


async def test_failures_before_the_first_request(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"]) as here:
        here.request(1)
        assert (await here.until(1, "Failed") or "").startswith("The repository is not reachable: ")
        fill(here, package=b"changed")
        here.request(1)
        await until(lambda: "sha1" in (here.status(1)[1] or ""))
        here.request(1, work=Work(file="var/own.wpk"))
        await until(lambda: "does not exist" in (here.status(1)[1] or ""))
        here.request(99)
        assert await here.until(99, "Failed") == "Upgrade procedure could not start: the agent is not known here"
        assert here.fleet.counters.requests == 0


async def test_an_agent_that_never_answers(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"], bad=Misbehaviour.MUTE) as here:
        fill(here)
        here.request(1)
        assert await here.until(1, "Failed") == "Send lock restart error: Response timeout"


async def test_own_package_and_installer(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"], settings=UpgradeSettings(chunk_size=64)) as here:
        (tmp_path / "own.wpk").write_bytes(PACKAGE[:1000])
        here.request(1, work=Work(file="own.wpk", installer="go.sh"))
        await here.until(1, "Done")
        assert here.fleet.counters.requests >= 16 + 5


async def test_switched_off(tmp_path: Path) -> None:
    async with site(tmp_path, ["v4.3.0"], settings=UpgradeSettings(enabled=False)) as here:
        here.request(1)
        await asyncio.sleep(SOON.poll * 5)
        assert here.status(1)[0] == "Pending"


# Without a network


class Books:
    """A task source in memory that can be away."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = list(jobs)
        self.away = False
        self.cancelled: list[float] = []
        self.renewed: list[list[int]] = []
        self.finished: list[tuple[int, str | None]] = []

    def _check(self) -> None:
        if self.away:
            raise SecmonError(3023)

    async def cancel(self, seconds: float) -> int:
        self._check()
        self.cancelled.append(seconds)
        return 0

    async def take(self, limit: int) -> Sequence[Job]:
        self._check()
        taken, self.jobs = self.jobs[:limit], self.jobs[limit:]
        return taken

    async def renew(self, ids: Sequence[int]) -> None:
        self._check()
        self.renewed.append(list(ids))

    async def finish(self, task: int, error: str | None) -> bool:
        self._check()
        self.finished.append((task, error))
        return True

    async def report(self, agent: int, error: str | None) -> bool:
        self._check()
        return True


@asynccontextmanager
async def at_work(
    folder: Path, books: TaskSource, link: MemoryLink, max_threads: int = 8
) -> AsyncIterator[asyncio.Task[None]]:
    """The module over a store with agents of version 4.7 and a package of their own."""
    async with open_field(folder) as here:
        many(here.store, 9)
        with here.store.write() as connection:
            connection.exec_driver_sql("update agents set version = 'Wazuh v4.7.0', os_platform = 'ubuntu'")
        (folder / "own.wpk").write_bytes(PACKAGE)
        clock = SystemClock()
        upgrades = Upgrades(
            books, link, Packages(here.paths, clock, configured=""), here.store,
            UpgradeSettings(max_threads=max_threads), wakeups=WakeupListener(here.paths.upgrades_socket),
            clock=clock, counters=Counters(), timing=SOON,
        )  # fmt: skip
        running = asyncio.create_task(upgrades.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def job(number: int) -> Job:
    return Job(task_id=number, agent_id=number, work=Work(file="own.wpk"))


async def test_no_more_at_once_than_allowed(tmp_path: Path) -> None:
    books, link = Books(*(job(number) for number in range(1, 6))), MemoryLink(silent=set(range(1, 6)))
    async with at_work(tmp_path, books, link, max_threads=2):
        await until(lambda: len(link.asked) == 2)
        await until(lambda: [1, 2] in books.renewed)
        assert len(link.asked) == 2
        assert len(books.jobs) == 3
    assert sorted(books.finished) == [
        (number, "Upgrade procedure could not start: the node was restarted meanwhile") for number in (1, 2)
    ]


async def test_the_task_source_may_be_unreachable(tmp_path: Path) -> None:
    books, link = Books(job(1)), MemoryLink(away={1})
    books.away = True
    async with at_work(tmp_path, books, link) as running:
        await asyncio.sleep(SOON.longest)
        assert books.cancelled == []
        books.away = False
        await until(lambda: link.asked)
        assert [seconds >= SOON.longest for seconds in books.cancelled] == [True]
        await until(lambda: books.finished)
        assert books.finished == [(1, "Send lock restart error: Cannot send request")]
        assert not running.done()


class Scripted(MemoryLink):
    """An agent that is not ready at first."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        self.asked.append((agent, target, payload))
        if b'"open"' in payload and self.refusals:
            self.refusals -= 1
            return b'{"error":1,"message":"Upgrade module is disabled or not ready yet","data":[]}'
        if target == "com":
            return b"ok "
        digest = sha1(PACKAGE).hexdigest() if b'"sha1"' in payload else "0"
        return b'{"error":0,"message":"%b","data":[]}' % digest.encode()


@pytest.mark.parametrize("refusals", [0, OPEN_ATTEMPTS - 1, OPEN_ATTEMPTS])
async def test_agents_that_are_not_ready(tmp_path: Path, refusals: int) -> None:
    (tmp_path / "own.wpk").write_bytes(PACKAGE)
    package = Package(tmp_path / "own.wpk", sha1(PACKAGE).hexdigest().upper())
    link = Scripted(refusals)
    transfer = Transfer(link, 1, dialect_of("v4.7.0"), package, chunk_size=1000, open_pause=0)
    if refusals < OPEN_ATTEMPTS:
        await transfer.run("upgrade.sh")
        assert len(link.asked) == 1 + refusals + 1 + -(-len(PACKAGE) // 1000) + 3
    else:
        with pytest.raises(UpgradeFailure, match="Send open file error: Upgrade module"):
            await transfer.run("upgrade.sh")
        assert len(link.asked) == 1 + OPEN_ATTEMPTS


async def test_the_digest_of_the_received_package_is_compared(tmp_path: Path) -> None:
    (tmp_path / "own.wpk").write_bytes(PACKAGE)
    transfer = Transfer(
        Scripted(0), 1, dialect_of("v4.7.0"), Package(tmp_path / "own.wpk", "0" * 40), chunk_size=32768, open_pause=0
    )
    with pytest.raises(UpgradeFailure, match="Send verify sha1 error"):
        await transfer.run("upgrade.sh")


async def test_tasks_without_an_end_expire(tmp_path: Path) -> None:
    store, clock = TaskStore(tmp_path / "tasks.db"), ManualClock()
    merging = TaskExpiry(store, TaskSettings(), clock=clock, counters=Counters())
    now = int(clock.now().timestamp())
    with store.write() as connection:
        lifecycle.create(connection, [(1, "a")], "upgrade", Work(), now=now - 8 * 86_400)
        lifecycle.create(connection, [(2, "a")], "upgrade", Work(), now=now)
        lifecycle.take(connection, "a", 9, now=now)

    def statuses() -> dict[int, str]:
        with store.read() as connection:
            return {agent: task.status for agent, task in lifecycle.last(connection, [1, 2]).items()}

    await merging.expire()
    assert statuses() == {2: "In progress"}
    clock.advance(901)
    await merging.expire()
    assert statuses() == {2: "Timeout"}
    clock.advance(8 * 86_400)
    await merging.expire()
    assert statuses() == {}
    store.close()


class UnavailableTaskSource(RegistryTaskSource):
    """Tasks that cannot be reached."""

    def __init__(self) -> None:
        self.asked = 0

    async def cancel(self, seconds: float) -> int:
        self.asked += 1
        raise SecmonError(3022)


@pytest.mark.parametrize(("patience", "reported"), [(0.0, 1), (30.0, 0)])
async def test_an_unreachable_task_source_is_logged_when_that_lasts(
    tmp_path: Path, patience: float, reported: int, caplog: pytest.LogCaptureFixture
) -> None:
    paths, clock, task_source = Paths(tmp_path), SystemClock(), UnavailableTaskSource()
    store = AgentStore(tmp_path / "agents.db")
    upgrades = Upgrades(
        task_source, LinkClient(tmp_path / "none"), Packages(paths, clock, configured=""), store, UpgradeSettings(),
        wakeups=WakeupListener(paths.upgrades_socket), clock=clock, counters=Counters(),
        timing=SOON._replace(patience=patience),
    )  # fmt: skip
    task = asyncio.create_task(upgrades.run())
    await until(lambda: task_source.asked >= 4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    store.close()
    assert caplog.text.count("cannot be reached") == reported
