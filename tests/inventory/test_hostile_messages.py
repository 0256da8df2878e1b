"""Whatever agents send of their inventory, the store takes it or it is malformed; the other messages are stored."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from secmon.common.counters import Counters
from secmon.inventory.components import COMPONENTS
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import hotfixes
from secmon.inventory.store import InventoryStore
from secmon.inventory.system.data_sets import DATA_SETS
from secmon.journal.journal import JournalWriter
from tests.manual_clock import ManualClock

CLOCK = ManualClock()
GOOD = (
    b'5:[005] (web-5) any->syscollector:{"component":"syscollector_hotfixes","type":"state","data":{"attributes":'
    + (b'{"hotfix":"KB1","checksum":"c"},"index":"KB1","timestamp":""}}')
)
COLUMNS = sorted({column.name for data_set in DATA_SETS for column in data_set.table.c} | {"type", "perm", "hash_md5"})
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.sampled_from([1 << 64, "18446744073709551615", -(1 << 63), "\0", "x" * 64_000, "file", "registry_value", 3]),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)  # fmt: skip
KEYS = st.sampled_from(
    ["index", "path", "timestamp", "version", "arch", "value_name", "id", "begin", "end", "tail", "checksum"]
)
ATTRIBUTES = st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=6)
DATA = st.dictionaries(KEYS, VALUES, max_size=6).flatmap(
    lambda data: ATTRIBUTES.map(lambda attributes: {**data, **attributes, "attributes": attributes})
)
SYNCHRONIZATION = st.fixed_dictionaries(
    {
        "component": st.sampled_from(sorted(COMPONENTS)),
        "type": st.sampled_from(
            ["state", "integrity_clear", *(f"integrity_check_{one}" for one in ("global", "left", "x"))]
        ),
        "data": DATA,
    }
).map(lambda body: ("5", body))
DELTAS = st.fixed_dictionaries(
    {
        "type": st.sampled_from([data_set.delta for data_set in DATA_SETS]),
        "operation": st.sampled_from(["INSERTED", "MODIFIED", "DELETED"]),
        "data": ATTRIBUTES,
    }
).map(lambda body: ("d", body))
LEGACY = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["hardware", "OS", "network", "port", "program", "hotfix", "process", "network_end"]),
        "ID": VALUES,
        "timestamp": VALUES,
    },
    optional={
        name: st.one_of(ATTRIBUTES, VALUES) for name in ("inventory", "iface", "port", "program", "hotfix", "process")
    },
).map(lambda body: ("d", body))


def message(queue: str, body: Any) -> bytes:
    return f"{queue}:[004] (web-4) any->syscollector:{json.dumps(body)}".encode()


@settings(deadline=None, max_examples=100)
@given(bodies=st.lists(st.one_of(SYNCHRONIZATION, DELTAS, LEGACY), min_size=1, max_size=8), torn=st.binary(max_size=20))
def test_no_message_costs_more_than_itself(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[tuple[str, Any]], torn: bytes
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    messages, events = (JournalWriter(folder / name, CLOCK, limit=4 << 20, segment=1 << 20) for name in ("m", "e"))
    store, counters = InventoryStore(folder / "inventory.db"), Counters()
    reader = InventoryReader(store, folder / "m", events, HANDLERS, clock=CLOCK, counters=counters)
    try:
        sent = [message(*body) for body in bodies]
        messages.append([*sent, *(one[:-4] + torn for one in sent), GOOD])
        assert reader.step()[0]
        assert "inventory.refused_by_store" not in counters.snapshot()
        with store.read() as connection:
            wanted = select(hotfixes.c.hotfix).where(hotfixes.c.agent_id == 5)
            assert connection.execute(wanted).scalars().all() == ["KB1"]
    finally:
        reader.close()
        store.close()
        messages.close()
        events.close()
