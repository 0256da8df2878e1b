"""Adding agents on the master: concurrent requests share one durable commit (group commit).

An agent gets its key only when it is on the disk, and a durable commit costs milliseconds however many rows it has.
Requests that arrive while a commit is running wait for the next one, which takes all of them.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.groups.folders import group_exists
from secmon.agents.names import ANY, MAX_GROUPS
from secmon.agents.registry import registry
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.sqlite.engine import attempt
from secmon.common.sqlite.faults import storage_error
from secmon.config.auth import AuthSettings, Force

log = logging.getLogger("secmon.agents")

MAX_BATCH = 256
"""Agents of one commit: later ones and other writers do not wait too long."""


class _Pending(NamedTuple):
    new: New
    force: Force
    done: "asyncio.Future[Added]"


class AgentRegistrar:
    """Adds agents to the registry. Belongs to one event loop."""

    def __init__(self, store: AgentStore, paths: Paths, clock: Clock, settings: AuthSettings) -> None:
        self._store, self._paths, self._clock = store, paths, clock
        self.settings = settings
        self.host_name = socket.gethostname()
        self._pending: list[_Pending] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, new: New, *, force: Force | None = None) -> Added:
        """Add an agent durably; ``force`` None: as configured.

        Raises as ``registry.add``, 1710 for a group that does not exist, 1725 when the store cannot be written
        (or 1005, 1021, 2013 for a fault of the disk). A cancelled call may have added the agent nevertheless.
        """
        done: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(new, force or self.settings.force, done))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="registration of agents")
        return await done

    async def _work(self) -> None:
        try:
            while self._pending:
                batch = [one for one in self._pending[:MAX_BATCH] if not one.done.cancelled()]
                del self._pending[:MAX_BATCH]
                for one, result in zip(batch, await asyncio.to_thread(self._commit, batch), strict=True):
                    if one.done.done():
                        continue
                    if isinstance(result, Added):
                        one.done.set_result(result)
                    else:
                        one.done.set_exception(result)
        finally:
            self._task = None
            for one in self._pending:
                one.done.cancel()

    def _commit(self, batch: Sequence[_Pending]) -> list[Added | SecmonError]:
        """Add the agents of ``batch`` in one transaction; the result of each, in order."""
        requested = {name for one in batch for name in one.new.groups}
        missing = {name for name in requested if not group_exists(self._paths, name)}
        refused = [_missing_group(one.new, missing) for one in batch]
        wanted = [(one.new, one.force) for one, error in zip(batch, refused, strict=True) if error is None]
        now = int(self._clock.now().timestamp())
        try:
            with self._store.write() as connection:
                purge, host_name = self.settings.purge, self.host_name
                added = iter(add_batch(connection, wanted, now=now, purge=purge, host_name=host_name))
        except (SQLAlchemyError, OSError) as error:
            failure = storage_error(error)
            if failure is None:
                log.exception("%d agents could not be added", len(batch))
                failure = SecmonError(1725, type(error).__name__)
            else:
                log.error("%d agents could not be added: %s", len(batch), error)
            return [SecmonError(failure.code, failure.extra) for _ in batch]
        results = [next(added) if error is None else error for error in refused]
        _log_results(results)
        return results


def _missing_group(new: New, missing: Set[str]) -> SecmonError | None:
    """1710 for an agent that requests one of the ``missing`` groups."""
    name = next((name for name in new.groups if name in missing), None)
    return None if name is None else SecmonError(1710, name)


def _log_results(results: Sequence[Added | SecmonError]) -> None:
    for one in results:
        if isinstance(one, Added):
            for reason in one.replaced:
                log.info("%s by agent %s", reason, one.entry.padded)
            log.debug("agent %s (%s) added with address %s", one.entry.padded, one.entry.name, one.entry.register_ip)


def add_batch(
    connection: Connection, wanted: Sequence[tuple[New, Force]], *, now: int, purge: bool, host_name: str
) -> list[Added | SecmonError]:
    """The result of ``registry.add`` for each agent, in order; an agent that is refused leaves no change behind.

    Agents without conflicts are added by a few statements for all of them.
    """
    unconflicted = _without_conflicts(connection, [new for new, _ in wanted], host_name)
    free = [new for new, _ in wanted if new.name in unconflicted]
    try:
        entries = {entry.name: entry for entry in registry.add_without_conflicts(connection, free, now=now)}
    except SecmonError:
        entries = {}  # too few ids for all of them: one by one some get an id
    results: list[Added | SecmonError] = []
    for new, force in wanted:
        if new.name in entries:
            results.append(Added(entries[new.name]))
            continue
        with attempt(connection, results.append):
            results.append(registry.add(connection, new, now=now, force=force, purge=purge, host_name=host_name))
    return results


def _without_conflicts(connection: Connection, news: Sequence[New], host_name: str) -> Set[str]:
    """Names of agents that need no further check: name, address and id are requested once and not in use."""
    times = Counter(new.name for new in news)
    names = {
        new.name
        for new in news
        if times[new.name] == 1
        and new.name != host_name
        and new.address == ANY
        and new.id is None
        and len(set(new.groups)) <= MAX_GROUPS
    }
    return names - set(connection.execute(select(agents.c.name).where(agents.c.name.in_(names))).scalars())
