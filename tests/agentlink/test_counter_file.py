"""Counters on disk: the server's never goes back, agents' are kept where they are verified."""

from pathlib import Path

import pytest

from secmon.agentlink.counter_file import AHEAD, ReceiverCounters, SenderCounter, read_counter
from secmon.agents.registry.registry import remove
from secmon.agents.wire.counters import Counter
from tests.agentlink.field import STARTUP, field
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_the_first_message_of_an_installation(tmp_path: Path) -> None:
    counter = SenderCounter(tmp_path)
    assert [counter.take() for _ in range(3)] == [(0, 1), (0, 2), (0, 3)]


async def test_the_counter_continues_after_any_end(tmp_path: Path) -> None:
    last = Counter()
    for count in (1, 5, 9997 * 2, 9997 * AHEAD + 5, 1):
        counter = SenderCounter(tmp_path)
        for _ in range(count):
            following = counter.take()
            assert following > last
            last = following


@pytest.mark.parametrize("text", ["12:9997:", "12:5:\n", "12:5"])
async def test_files_of_other_installations(tmp_path: Path, text: str) -> None:
    (tmp_path / "sender_counter").write_text(text)
    assert SenderCounter(tmp_path).take() == ((13, 1) if text.endswith((":", "\n")) else (0, 1))


async def test_repeated_messages_are_refused_where_counters_are_verified(tmp_path: Path) -> None:
    async with field(tmp_path, verify_counters=True, counters_every=2) as here:
        agent = await (await here.agent()).start()
        repeated = agent.sealed(b"1:f:once")
        await agent.raw(repeated)
        await agent.raw(repeated)
        assert await agent.closed_by_server()
        assert await here.events(1) == [b"1:[001] (web-01) any->f:once"]
        assert here.server.counts.unknown == 1
        assert here.wanted == []
        await until(lambda: read_counter(here.paths.counters / "001") == agent.counter)
        again = await here.agent(agent.key)
        again.counter = Counter(3, 0)
        await again.start()
        again.counter = Counter(2, 500)
        await again.send(STARTUP)
        assert await again.closed_by_server()
        assert here.wanted == [("id", "001")]
    async with field(tmp_path, verify_counters=True) as here:
        old = await here.agent(agent.key)
        await old.raw(repeated)
        assert await old.closed_by_server()  # remembered over the restart
        fresh = await here.agent(agent.key)
        fresh.counter = Counter(3, 1)
        await fresh.start()
        with here.store.write() as connection:
            remove(connection, [1])
        assert await fresh.closed_by_server()
        await until(lambda: not (here.paths.counters / "001").exists())


async def test_no_replay_passes_where_counters_are_verified(tmp_path: Path) -> None:
    """Over TCP and UDP, with the agent connected or not, before and after a restart of the server."""
    async with field(tmp_path, verify_counters=True) as here:
        agent = await here.agent(stream=False)
        recorded = agent.sealed(b"1:f:once")
        await agent.raw(recorded)
        await here.events(1)
        await agent.raw(recorded)
        await until(lambda: here.server.counts.unknown == 1)
        stranger = await here.agent(agent.key)
        await stranger.raw(recorded)
        assert await stranger.closed_by_server()
    async with field(tmp_path, verify_counters=True) as here:
        for stream in (True, False):
            stranger = await here.agent(agent.key, stream=stream)
            await stranger.raw(recorded)
        await until(lambda: here.server.counts.unknown == 2)
        assert here.server.counts.event == 0


async def test_agents_counters(tmp_path: Path) -> None:
    files = ReceiverCounters(tmp_path)
    assert files.load("001") == (0, 0)
    files.save([("001", Counter(1, 2))])
    assert files.load("001") == (1, 2)
    files.forget("001")
    files.forget("001")
    assert files.load("001") == (0, 0)
