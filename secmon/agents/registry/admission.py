"""Adding agents on the master, many at once.

Each agent that is told its key must be on the disk, and a durable commit costs milliseconds whatever is in it. So those
that come while a commit is under way wait, and share the next one.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence, Set
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.groups.folders import group_exists
from secmon.agents.registry.bulk_admission import add_together
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.sqlite.faults import storage_error
from secmon.config.auth import AuthSettings, Force

log = logging.getLogger("secmon.agents")

MOST_AT_ONCE = 256
"""Agents of one commit: what comes after them does not wait too long, nor do other writers."""


class _Waiting(NamedTuple):
    new: New
    force: Force
    done: "asyncio.Future[Added]"


class Admission:
    """Belongs to one event loop."""

    def __init__(self, store: AgentStore, paths: Paths, clock: Clock, settings: AuthSettings) -> None:
        self._store, self._paths, self._clock = store, paths, clock
        self.settings = settings
        self.host_name = socket.gethostname()
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, new: New, *, force: Force | None = None) -> Added:
        """Add an agent durably; ``force`` None: as configured.

        Raises as ``registry.add``, 1710 for a group that does not exist, 1725 when the store cannot be written
        (or 1005, 1021, 2013, which say why). Who is cancelled may have been added nevertheless.
        """
        done: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(new, force or self.settings.force, done))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="admission of agents")
        return await done

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = [one for one in self._waiting[:MOST_AT_ONCE] if not one.done.cancelled()]
                del self._waiting[:MOST_AT_ONCE]
                for one, result in zip(batch, await asyncio.to_thread(self._commit, batch), strict=True):
                    if one.done.done():
                        continue
                    if isinstance(result, Added):
                        one.done.set_result(result)
                    else:
                        one.done.set_exception(result)
        finally:
            self._task = None
            for one in self._waiting:
                one.done.cancel()

    def _commit(self, batch: Sequence[_Waiting]) -> list[Added | SecmonError]:
        named = {name for one in batch for name in one.new.groups}
        missing = {name for name in named if not group_exists(self._paths, name)}
        results: list[Added | SecmonError | None] = [_absent(one, missing) for one in batch]
        wanted = [(one.new, one.force) for one, refused in zip(batch, results, strict=True) if refused is None]
        now = int(self._clock.now().timestamp())
        try:
            with self._store.write() as connection:
                purge, host_name = self.settings.purge, self.host_name
                made = iter(add_together(connection, wanted, now=now, purge=purge, host_name=host_name))
        except (SQLAlchemyError, OSError) as error:
            told = storage_error(error)
            if told is None:
                log.exception("%d agents could not be added", len(batch))
                told = SecmonError(1725, type(error).__name__)
            else:
                log.error("%d agents could not be added: %s", len(batch), error)
            return [SecmonError(told.code, told.extra) for _ in batch]
        whole = [one if one is not None else next(made) for one in results]
        _tell(whole)
        return whole


def _absent(one: _Waiting, missing: Set[str]) -> SecmonError | None:
    """The refusal of who asks for a group that does not exist."""
    name = next((name for name in one.new.groups if name in missing), None)
    return None if name is None else SecmonError(1710, name)


def _tell(results: Sequence[Added | SecmonError]) -> None:
    for one in results:
        if isinstance(one, Added):
            for reason in one.replaced:
                log.info("%s by agent %s", reason, one.entry.padded)
            log.debug("agent %s (%s) added with address %s", one.entry.padded, one.entry.name, one.entry.register_ip)
