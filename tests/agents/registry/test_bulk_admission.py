"""Adding many at once makes the same of each as one after the other."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from secmon.agents.names import MAX_ID
from secmon.agents.registry import registry
from secmon.agents.registry.bulk_admission import add_together
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.replacement import NEVER
from secmon.agents.registry.store import AgentStore, number, put
from secmon.agents.replica import verify
from secmon.common.errors import SecmonError
from secmon.config.auth import Force

HOST = "boss"
AT_ONCE = Force(disconnected_time=None, after_registration_time=None)
NEWS = st.builds(
    New,
    name=st.sampled_from(["a1", "a2", "a3", "a4", "a5", HOST]),
    address=st.sampled_from(["any", "any", "10.0.0.1", "10.0.0.0/8"]),
    groups=st.sampled_from([(), ("x",), tuple(f"g{number}" for number in range(129))]),
)
WANTED = st.lists(st.tuples(NEWS, st.sampled_from([NEVER, AT_ONCE])), max_size=8)


def one_by_one(connection: Connection, wanted: list[tuple[New, Force]]) -> list[Added | SecmonError]:
    results: list[Added | SecmonError] = []
    for new, force in wanted:
        try:
            results.append(registry.add(connection, new, now=5, force=force, purge=True, host_name=HOST))
        except SecmonError as error:
            results.append(error)
    return results


def told(results: list[Added | SecmonError]) -> list[object]:
    """The results without ids, which may be given out in another order."""
    return [one.code if isinstance(one, SecmonError) else (one.entry.name, len(one.replaced)) for one in results]


def held(connection: Connection) -> list[tuple[str, str, str | None]]:
    assert verify(connection)
    return sorted((one.name, one.register_ip, one.group) for one in entries(connection))


@settings(max_examples=60)
@given(WANTED, WANTED)
def test_the_same_of_each(before: list[tuple[New, Force]], wanted: list[tuple[New, Force]]) -> None:
    with TemporaryDirectory() as folder:
        found = []
        for name in ("one", "two"):
            store = AgentStore(Path(folder) / name, durable=False)
            with store.write() as connection:
                one_by_one(connection, before)
                if name == "one":
                    results = one_by_one(connection, wanted)
                else:
                    results = add_together(connection, wanted, now=5, purge=True, host_name=HOST)
                gone = sorted(one.name for one in tombstones(connection))
                found.append((told(results), held(connection), gone, number(connection, "next_id")))
            store.close()
        assert found[0] == found[1]


def test_after_the_highest_id_the_lowest_free_ones_are_given(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    with store.write() as connection:
        one_by_one(connection, [(New(name="first"), NEVER), (New(name="removed"), NEVER)])
        registry.remove(connection, [2], purge=True)
        put(connection, "next_id", MAX_ID - 1)
        wanted = [(New(name=f"a{number}"), NEVER) for number in range(4)]
        results = add_together(connection, wanted, now=1, purge=False, host_name=HOST)
        assert [one.entry.id for one in results if isinstance(one, Added)] == [MAX_ID - 1, MAX_ID, 3, 4]
        assert verify(connection)
    store.close()
