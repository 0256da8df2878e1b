"""Labels of agents for their alerts, read from the agent store and cached (ruleset.md 9.1, 11)."""

import logging
from collections.abc import Callable

import msgspec
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.errors import ConfigError
from secmon.engine.output.document import Labels

log = logging.getLogger("secmon.analysisd")

ADDRESS = "#_agent_ip"
_HIDDEN, _OWN = "!", "#"
CACHE_SIZE = 200_000
"""Agents in the cache; a full cache is cleared."""

LabelSource = Callable[[str], Labels | None]
"""Labels by the id of an agent, in three digits or more."""


class StoredLabels:
    """Reads one agent at a time, when an alert of it is written. For one thread."""

    def __init__(self, store: AgentStore, clock: Clock, *, max_age_seconds: float, show_hidden: bool) -> None:
        self._store = store
        self._clock = clock
        self._max_age = max_age_seconds
        self._show_hidden = show_hidden
        self._known: dict[str, tuple[float, Labels | None]] = {}

    def __call__(self, agent: str) -> Labels | None:
        """None for an unknown agent, or while the store cannot be read."""
        now = self._clock.monotonic()
        known = self._known.get(agent)
        if known is not None and now - known[0] < self._max_age:
            return known[1]
        if len(self._known) >= CACHE_SIZE:
            self._known.clear()
        found = self._read(int(agent))
        self._known[agent] = (now, found)
        return found

    def _read(self, number: int) -> Labels | None:
        try:
            with self._store.read() as connection:
                stored = connection.execute(select(agents.c.labels).where(agents.c.id == number)).scalar()
        except (SQLAlchemyError, ConfigError, OSError) as error:
            log.warning("Labels of agent %03d cannot be read: %s", number, error)
            return None
        return self._shown(stored) if stored else None

    def _shown(self, stored: str) -> Labels:
        address, visible = None, []
        for name, value in msgspec.json.decode(stored, type=list[tuple[str, str]]):
            if name == ADDRESS:
                address = value
            if name.startswith(_OWN) or (name.startswith(_HIDDEN) and not self._show_hidden):
                continue
            visible.append((name.removeprefix(_HIDDEN), value))
        return Labels(address, visible)
