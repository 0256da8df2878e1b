"""A store of the inventory, to which a test hands messages as the reader does."""

import json
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from secmon.inventory.changes import Changes, Handler
from secmon.inventory.message import AgentMessage
from secmon.inventory.store import InventoryStore

QUEUES = {"sca": "p", "rootcheck": "9", "wodle_cis-cat": "e"}


def message_of(source: str, body: str | dict[str, Any], *, agent: int = 4, received: float = 1000.0) -> AgentMessage:
    """A message of an agent with the address ``any``; an object becomes JSON."""
    text = body if isinstance(body, str) else json.dumps(body)
    location = f"(web-4) any->{source}"
    return AgentMessage(
        queue=QUEUES.get(source, "1"), agent=agent, name="web-4", location=location, body=text, received=received
    )


class HandledMessages:
    """The store, and what its handler has answered and reported last."""

    def __init__(self, folder: Path, handler: Handler) -> None:
        self.store = InventoryStore(folder / "inventory.db")
        self._handler = handler

    def handle(self, *messages: AgentMessage) -> Changes:
        """Handle ``messages`` in one transaction. Raises MalformedMessage, and nothing is stored."""
        with self.store.write() as connection:
            changes = Changes(connection)
            for message in messages:
                self._handler(message, changes)
            changes.flush_all()
        return changes

    def rows(self, table: Table, agent: int = 4) -> list[dict[str, Any]]:
        """Rows of an agent in the order of their primary keys, without it."""
        wanted = select(table).where(table.c.agent_id == agent).order_by(*table.primary_key.columns)
        with self.store.read() as connection:
            found = [dict(row) for row in connection.execute(wanted).mappings()]
        return [{name: value for name, value in row.items() if name != "agent_id"} for row in found]
