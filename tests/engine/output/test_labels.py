"""Labels of agents, from the real store."""

import json
from pathlib import Path

from sqlalchemy import update

from secmon.agents.registry.registry import New, add_without_conflicts
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.engine.output.document import Labels
from secmon.engine.output.labels import StoredLabels
from tests.manual_clock import ManualClock


def test_labels_are_read_shown_and_kept_for_a_while(tmp_path: Path) -> None:
    store, clock = AgentStore(tmp_path / "agents.db"), ManualClock()
    with store.write() as connection:
        number = add_without_conflicts(connection, [New(name="web")], now=1)[0].id
        stored = [["site.room", "b"], ["!secret", "x"], ["#_agent_ip", "192.0.2.7"], ["#_node_name", "n"]]
        connection.execute(update(agents).where(agents.c.id == number).values(labels=json.dumps(stored)))
    shown = StoredLabels(store, clock, max_age_seconds=10, show_hidden=False)
    agent = f"{number:03d}"
    assert shown(agent) == Labels("192.0.2.7", [("site.room", "b")])
    assert StoredLabels(store, clock, max_age_seconds=10, show_hidden=True)(agent) == Labels(
        "192.0.2.7", [("site.room", "b"), ("secret", "x")]
    )
    assert shown("999") is None
    with store.write() as connection:
        connection.execute(update(agents).values(labels="[]"))
    assert shown(agent) == Labels("192.0.2.7", [("site.room", "b")])
    clock.advance(11)
    assert shown(agent) == Labels(None, [])
    store.close()
