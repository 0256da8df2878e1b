"""Adding many agents at once: durable, each with its own result, the same as one after the other."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from secmon.agents.names import MAX_ID
from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.registration import MAX_BATCH, AgentRegistrar, add_batch
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.replacement import NEVER
from secmon.agents.registry.store import AgentStore, number, put
from secmon.agents.replica import verify
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.auth import AuthSettings, Force
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc/shared/linux").mkdir(parents=True)
    return Paths(tmp_path)


def open_registrar(paths: Paths, clock: ManualClock | None = None) -> tuple[AgentStore, AgentRegistrar]:
    store = AgentStore(paths.agents_db, durable=False)
    return store, AgentRegistrar(store, paths, clock or ManualClock(), AuthSettings(disabled=False))


async def test_concurrent_requests_share_commits(paths: Paths) -> None:
    store, registrar = open_registrar(paths)
    count = MAX_BATCH + 50
    news = [New(name=f"a{number}", groups=("linux",)) for number in range(count)]
    added = await asyncio.gather(*(registrar.add(new) for new in news))
    assert [one.entry.id for one in added] == list(range(1, count + 1))
    with store.read() as connection:
        assert entries(connection) == [one.entry for one in added]
        assert verify(connection)
    store.close()


async def test_each_agent_has_its_own_result(paths: Paths) -> None:
    store, registrar = open_registrar(paths)
    news = [
        New(name="a1"), New(name="a1"), New(name="a2", groups=("linux", "none")), New(name=registrar.host_name),
        New(name="a3", groups=("linux",)),
    ]  # fmt: skip
    results = await asyncio.gather(*(registrar.add(new) for new in news), return_exceptions=True)
    assert [id_or_code(one) for one in results] == [2, 1705, 1710, 1705, 1]
    assert isinstance(results[2], SecmonError)
    assert results[2].extra == "none"
    store.close()


def id_or_code(result: object) -> int:
    """The agent's id, or the code of the error."""
    if isinstance(result, Added):
        return result.entry.id
    assert isinstance(result, SecmonError)
    return result.code


async def test_the_configured_rule_counts_unless_another_is_given(paths: Paths) -> None:
    clock = ManualClock()
    store, registrar = open_registrar(paths, clock)
    await registrar.add(New(name="a1"))
    clock.advance(3600)
    with pytest.raises(SecmonError, match="1705"):
        await registrar.add(New(name="a1"), force=NEVER)
    assert (await registrar.add(New(name="a1"))).replaced == ("agent 001 (a1) is replaced",)
    store.close()


async def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.agents_db.parent.mkdir(parents=True)
    paths.agents_db.write_text("no database at all, but long enough to be looked at as one")
    store, registrar = open_registrar(paths)
    with pytest.raises(SecmonError, match="2013"):
        await registrar.add(New(name="a1"))
    store.close()


HOST = "boss"
REPLACE_AT_ONCE = Force(disconnected_time=None, after_registration_time=None)
NEWS = st.builds(
    New,
    name=st.sampled_from(["a1", "a2", "a3", "a4", "a5", HOST]),
    address=st.sampled_from(["any", "any", "10.0.0.1", "10.0.0.0/8"]),
    groups=st.sampled_from([(), ("x",), tuple(f"g{number}" for number in range(129))]),
)
WANTED = st.lists(st.tuples(NEWS, st.sampled_from([NEVER, REPLACE_AT_ONCE])), max_size=8)


def one_by_one(connection: Connection, wanted: list[tuple[New, Force]]) -> list[Added | SecmonError]:
    results: list[Added | SecmonError] = []
    for new, force in wanted:
        try:
            results.append(registry.add(connection, new, now=5, force=force, purge=True, host_name=HOST))
        except SecmonError as error:
            results.append(error)
    return results


def results_without_ids(results: list[Added | SecmonError]) -> list[object]:
    """The results without ids, which may be given out in another order."""
    return [one.code if isinstance(one, SecmonError) else (one.entry.name, len(one.replaced)) for one in results]


def rows_of(connection: Connection) -> list[tuple[str, str, str | None]]:
    assert verify(connection)
    return sorted((one.name, one.register_ip, one.group) for one in entries(connection))


@settings(max_examples=60)
@given(WANTED, WANTED)
def test_a_batch_has_the_results_of_single_additions(
    before: list[tuple[New, Force]], wanted: list[tuple[New, Force]]
) -> None:
    with TemporaryDirectory() as folder:
        found = []
        for name in ("one", "two"):
            store = AgentStore(Path(folder) / name, durable=False)
            with store.write() as connection:
                one_by_one(connection, before)
                if name == "one":
                    results = one_by_one(connection, wanted)
                else:
                    results = add_batch(connection, wanted, now=5, purge=True, host_name=HOST)
                gone = sorted(one.name for one in tombstones(connection))
                found.append((results_without_ids(results), rows_of(connection), gone, number(connection, "next_id")))
            store.close()
        assert found[0] == found[1]


def test_after_the_highest_id_the_lowest_free_ones_are_given(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    with store.write() as connection:
        one_by_one(connection, [(New(name="first"), NEVER), (New(name="removed"), NEVER)])
        registry.remove(connection, [2], purge=True)
        put(connection, "next_id", MAX_ID - 1)
        wanted = [(New(name=f"a{number}"), NEVER) for number in range(4)]
        results = add_batch(connection, wanted, now=1, purge=False, host_name=HOST)
        assert [one.entry.id for one in results if isinstance(one, Added)] == [MAX_ID - 1, MAX_ID, 3, 4]
        assert verify(connection)
    store.close()
