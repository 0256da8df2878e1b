"""Proofs that this node is still the master: the database's, or while it is gone those of the members.

A node that cannot reach the database does not learn that another has become master. As long as all members that could
have followed another one are connected and know no higher term, none has: so the security lease of this node and those
of its workers, which take over the age of the proof, do not run out for want of a database.
"""

import asyncio
import logging
from collections.abc import Set
from contextlib import suppress
from typing import Protocol

from secmon.cluster.leadership.client import LeaderClient, LeaderStatus
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.lease import LeaseWriter
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.master.worker_session import WorkerSession

log = logging.getLogger("secmon.clusterd.master")

GATHER_SECONDS = 3.0
"""For the other nodes to join a new master."""


class Terms(Protocol):
    """What the sessions of a master have to do with terms."""

    @property
    def term(self) -> int:
        """The number of the held term; 0 without a store of record."""

    @property
    def unproved(self) -> float:
        """Seconds since this node last had a proof that it is the master."""

    def require_current(self, shown: int, by: str) -> None:
        """Raises SecmonError 3054 if ``shown``, the term that the node ``by`` knows, is a later one."""


class NoTerms:
    """A master that the configuration has chosen."""

    term = 0
    unproved = 0.0

    def require_current(self, shown: int, by: str) -> None:
        """No term is later."""


class Mastership:
    """A master that the store of record has chosen. Add it to the listeners of the sessions; keeps the lease."""

    def __init__(self, node: str, known: KnownTerm, *, leader: LeaderClient, lease: LeaseWriter, clock: Clock) -> None:
        self._node, self._leader, self._lease, self._clock = node, leader, lease, clock
        self.term = known.number
        """When this process started: with another one it is started again."""
        self._proved = float("-inf")
        self._contacted = 0.0
        self._acknowledged: dict[str, float] = {}
        self._members: Set[str] | None = None
        """Those connected at the last contact with the database, and all that may follow; None before that."""
        self._shown = (0, "")
        self._wake = asyncio.Event()
        self._gathered, self._begun = asyncio.Event(), clock.monotonic()

    async def gathered(self) -> None:
        """Wait until all candidates have joined this node. Later in its term, and without them, no longer."""
        if not self._gathered.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._begun + GATHER_SECONDS - self._clock.monotonic())):
                    await self._gathered.wait()
            self._gathered.set()

    @property
    def unproved(self) -> float:
        return max(0.0, self._clock.boottime() - self._proved)

    def require_current(self, shown: int, by: str) -> None:
        """See :class:`Terms`. The later term ends this one."""
        if shown > self.term:
            self._shown = max(self._shown, (shown, by))
            self._wake.set()
            raise SecmonError(3054, f"this node holds term {self.term}, {by} knows term {shown}")

    async def run(self, interval_seconds: float) -> None:
        """Look for proofs until cancelled."""
        while True:
            await self._report()
            self._prove(await self._status())
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), interval_seconds)
            except TimeoutError:
                continue

    async def _status(self) -> LeaderStatus | None:
        try:
            return await self._leader.status()
        except SecmonError as error:
            log.debug("no answer of secmon-leaderd: %s", error)
            return None

    async def _report(self) -> None:
        """Have the leader know the later term that was shown."""
        number, by = self._shown
        if number:
            try:
                await self._leader.shown(number, by)
            except SecmonError as error:
                log.warning("secmon-leaderd does not learn of term %d: %s", number, error)
            else:
                self._shown = (0, "")

    def _prove(self, status: LeaderStatus | None) -> None:
        connected = self._acknowledged.keys()
        if status is not None and self._holds(status) and (status.contacted or 0.0) > self._contacted:
            self._contacted = status.contacted or 0.0
            self._members = {*status.may_follow, *connected} - {self._node}
            self._proved = max(self._proved, self._contacted)
        elif self._members is not None and self._members <= connected:
            acknowledged = (self._acknowledged[name] for name in self._members)
            self._proved = max(self._proved, min(acknowledged, default=self._clock.boottime()))
        self._lease.renew(since=self._proved)
        self._note_gathered()

    def _note_gathered(self) -> None:
        if self._members is not None and self._members <= self._acknowledged.keys():
            self._gathered.set()

    def _holds(self, status: LeaderStatus) -> bool:
        return status.role == "master" and status.term is not None and status.term.number == self.term

    # -- SessionListener

    def joined(self, session: WorkerSession) -> None:
        self._acknowledged[session.name] = self._clock.boottime()
        self._note_gathered()

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        if message.HasField("heartbeat"):
            self._acknowledged[session.name] = self._clock.boottime()

    def left(self, session: WorkerSession) -> None:
        self._acknowledged.pop(session.name, None)
