"""Adding many agents at once: all of them durable, each with its own answer."""

import asyncio
from pathlib import Path

import pytest

from secmon.agents.registry.admission import MOST_AT_ONCE, Admission
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.replacement import NEVER
from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import verify
from secmon.common.clock import ManualClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.auth import AuthSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc/shared/linux").mkdir(parents=True)
    return Paths(tmp_path)


def admission(paths: Paths, clock: ManualClock | None = None) -> tuple[AgentStore, Admission]:
    store = AgentStore(paths.agents_db, durable=False)
    return store, Admission(store, paths, clock or ManualClock(), AuthSettings(disabled=False))


async def test_those_that_come_together_share_commits(paths: Paths) -> None:
    store, door = admission(paths)
    count = MOST_AT_ONCE + 50
    news = [New(name=f"a{number}", groups=("linux",)) for number in range(count)]
    added = await asyncio.gather(*(door.add(new) for new in news))
    assert [one.entry.id for one in added] == list(range(1, count + 1))
    with store.read() as connection:
        assert entries(connection) == [one.entry for one in added]
        assert verify(connection)
    store.close()


async def test_each_has_its_own_answer(paths: Paths) -> None:
    store, door = admission(paths)
    news = [
        New(name="a1"), New(name="a1"), New(name="a2", groups=("linux", "none")), New(name=door.host_name),
        New(name="a3", groups=("linux",)),
    ]  # fmt: skip
    results = await asyncio.gather(*(door.add(new) for new in news), return_exceptions=True)
    assert [number(one) for one in results] == [2, 1705, 1710, 1705, 1]
    assert isinstance(results[2], SecmonError)
    assert results[2].extra == "none"
    store.close()


def number(result: object) -> int:
    """The agent's id, or the code of the error."""
    if isinstance(result, Added):
        return result.entry.id
    assert isinstance(result, SecmonError)
    return result.code


async def test_the_configured_rule_counts_unless_another_is_given(paths: Paths) -> None:
    clock = ManualClock()
    store, door = admission(paths, clock)
    await door.add(New(name="a1"))
    clock.advance(3600)
    with pytest.raises(SecmonError, match="1705"):
        await door.add(New(name="a1"), force=NEVER)
    assert (await door.add(New(name="a1"))).replaced == ("agent 001 (a1) is replaced",)
    store.close()


async def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.agents_db.parent.mkdir(parents=True)
    paths.agents_db.write_text("no database at all, but long enough to be looked at as one")
    store, door = admission(paths)
    with pytest.raises(SecmonError, match="2013"):
        await door.add(New(name="a1"))
    store.close()
