"""Executes what ``decide`` says: one node's part in who is master."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import Connection

from secmon.cluster.leadership import candidates, terms
from secmon.cluster.leadership.candidates import Candidate
from secmon.cluster.leadership.contact import RecordContact
from secmon.cluster.leadership.decide import (
    Claim,
    Follow,
    Observe,
    Renew,
    Resign,
    Stay,
    StepDown,
    Suspend,
    Transition,
    decide,
)
from secmon.cluster.leadership.lookout import LeaderSettings, Lookout, Reading
from secmon.cluster.leadership.role_file import CurrentRole, Role
from secmon.cluster.leadership.snapshot import Resignation, Snapshot
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.cluster.record.readiness import Readiness
from secmon.common.background import cancel
from secmon.common.clock import Clock, iso_z
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.logfile.trouble_log import TroubleLog

log = logging.getLogger("secmon.leaderd")

HELD_OFF_SECONDS = 30.0
"""After a failure as master, in which other nodes go first."""
MAX_AHEAD = 1000
"""A number of a term that is further ahead of the known one is not believed."""


class Leader:
    """Claims, renews, follows and resigns for one node. Used on one event loop."""

    def __init__(
        self,
        settings: LeaderSettings,
        record: RecordAddress,
        start: CurrentRole,
        *,
        become_master: Callable[[Term], None],
        publish: Callable[[CurrentRole, bool], Awaitable[None]],
        ready: Callable[[Connection], Readiness] = lambda connection: Readiness(),
        clock: Clock,
        counters: Counters,
        rng: random.Random | None = None,
    ) -> None:
        """``start``: the role that the daemons of the node have.

        ``become_master`` brings this node up to the store of record; it blocks and raises SecmonError if it cannot.
        ``publish`` writes the role for the daemons and, if True, has those restarted that depend on it.
        ``ready`` says whether this node could be the master; it blocks.
        """
        self._settings, self._clock, self._counters = settings, clock, counters
        self._become_master, self._publish = become_master, publish
        self._random = rng or random.SystemRandom()
        self._wake = asyncio.Event()
        self._contact = RecordContact(record, attempt_seconds=settings.timing.attempt, changed=self._wake.set)
        self._lookout = Lookout(settings, ready, clock, lambda: self._contact.local_address)
        self._known = Snapshot(
            node=settings.node,
            timing=settings.timing,
            next_contact=clock.boottime(),
            known=start.term,
            holding=start.role == "master",
        )
        self._role, self._reason = start, start.reason
        self._candidates: Sequence[Candidate] = ()
        self._contacted: float | None = None
        self._trouble, self._trouble_since, self._trouble_log = "", "", TroubleLog(log)
        self._taking_over = asyncio.Lock()
        self._takeover: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Decide and act until cancelled."""
        try:
            while True:
                await self._execute(decide(self._known, self._clock.boottime()))
        finally:
            if self._takeover is not None:
                await cancel(self._takeover)

    async def stop(self) -> None:
        """Resign if this node is the master, so that another takes over at once; call after ``run`` has ended."""
        name, held = self._settings.node, self._known.known
        with suppress(SecmonError):  # the term expires by itself
            if self._known.holding and held is not None:
                reason = f"{name} was stopped"
                await self._contact.do(lambda connection: terms.resign(connection, held, "", reason))
                log.info("term %d is resigned: %s", held.number, reason)
            await self._contact.do(lambda connection: candidates.withdraw(connection, self._lookout.place))
        await self._contact.close()

    # Requests of other processes

    def status(self) -> Mapping[str, Any]:
        """The term, who holds it since when and why, who could follow, and the time of the last contact."""
        row, role = self._known.row, self._role
        return {
            "role": role.role,
            "term": msgspec.to_builtins(row.term if row else role.term),
            "since": iso_z(row.since) if row else None,
            "reason": self._reason,
            "resigned": bool(row and row.resigned),
            "expired_since": iso_z(row.expires) if row and row.expired else None,
            "candidates": candidates.able(self._candidates),
            "may_follow": candidates.may_follow(self._candidates),
            "unable": [
                {"node": each.node, "address": each.address, "reason": each.obstacle}
                for each in self._candidates
                if each.obstacle
            ],
            "contacted": self._contacted,
            "trouble": self._trouble,
            "trouble_since": self._trouble_since or None,
        }

    def counters(self) -> Mapping[str, float]:
        """Figures of the moment, beside those that :class:`Counters` has. Times in seconds."""
        now, row, known = self._clock.boottime(), self._known.row, self._known
        figures = {
            "record_up": float(self._contacted is not None and not self._trouble),
            "candidates": len(self._candidates),
            "lease_seconds": max(0.0, known.lease_end - now) if known.holding else 0.0,
        }
        if self._contacted is not None:
            figures["record_silence_seconds"] = now - self._contacted
        if row is not None:
            figures["term_started"] = row.since.timestamp()
        return {f"leadership.{name}": value for name, value in figures.items()}

    def failed(self, reason: str) -> None:
        """This node cannot be the master for now: resign, and let others go first."""
        self._counters.add("leadership.failures")
        until, self._lookout.failure = self._clock.boottime() + HELD_OFF_SECONDS, reason
        self._known = replace(self._known, held_off_until=until)
        if self._known.holding:
            self._known = replace(self._known, resignation=Resignation(successor="", reason=reason))
        self._wake.set()

    def shown(self, number: int, by: str) -> None:
        """Another node knows the term ``number``."""
        highest = self._known.highest
        if highest + MAX_AHEAD < number:
            log.warning("%s knows term %d, which cannot be: the current one is %d", by, number, highest)
        elif highest < number:
            self._known = replace(self._known, shown=number, shown_by=by)
            self._wake.set()

    async def switch_over(self, successor: str) -> Term:
        """End the current term, held by any node, in favour of ``successor``, or of any other node if empty.

        Returns the term that ends. Raises SecmonError 3055 if no such node can follow, 3050.
        """
        row = self._known.row
        able = [each for each in candidates.able(self._candidates) if row is None or each != row.term.holder]
        if row is None or not able or (successor and successor not in able):
            raise SecmonError(3055, f"{successor or 'another node'}; able are: {', '.join(able) or 'none'}")
        chosen = successor or able[0]
        reason = f"an operator has given the role to {chosen}"
        if not await self._contact.do(lambda connection: terms.resign(connection, row.term, chosen, reason)):
            raise SecmonError(3055, "the master has just changed")
        self._wake.set()
        return row.term

    # Transitions

    async def _execute(self, transition: Transition) -> None:
        match transition:
            case Stay(until):
                await self._wait(until)
            case Observe():
                await self._attempt(self._look, jitter=True)
            case Renew():
                await self._renew()
            case Claim(seen, reason):
                await self._claim(seen, reason)
            case Follow(term, reason):
                self._known = self._known.following(term)
                await self._change("worker", term, reason, f"term {term.number}: {term.holder} is the master")
            case StepDown(reason):
                await self._step_down(reason)
            case Suspend(reason):
                self._known = replace(self._known, suspended=True)
                log.warning("term %d: %s", self._held.number, reason)
            case Resign(successor, reason):
                held = self._held
                log.info("term %d is resigned in favour of %s: %s", held.number, successor or "any node", reason)
                await self._attempt(lambda c: self._look(c, terms.resign(c, held, successor, reason)))

    async def _wait(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - self._clock.boottime())):
                await self._wake.wait()
                self._known = replace(self._known, next_contact=self._clock.boottime())
        self._wake.clear()

    async def _renew(self) -> None:
        held, sent = self._held, self._clock.boottime()
        found = await self._attempt(lambda connection: self._look(connection, terms.renew(connection, held)))
        if found is None or not found.done:
            self._counters.add("leadership.renewals_failed")
            return
        self._counters.add("leadership.renewals")
        if self._known.suspended:
            log.info("term %d: the database has answered, changes are accepted", held.number)
        self._known = self._known.renewed_at(sent)

    async def _claim(self, seen: Term, reason: str) -> None:
        sent, above, ttl = self._clock.boottime(), self._known.highest, round(self._settings.timing.ttl)
        begun: list[Term] = []

        def work(connection: Connection) -> Reading:
            new = terms.claim(connection, seen, self._lookout.place, reason, above=above, ttl_seconds=ttl)
            begun.extend([new] if new else [])
            return self._look(connection, new is not None)

        found = await self._attempt(work)
        if found is None or not found.done:  # another node was faster, or the row shows later that this one was
            return
        [term] = begun
        self._known = self._known.begun(term, sent)
        # The daemons go on as they are until this node is the master; the link leaves the old one by itself.
        sentence = f"term {term.number}: this node takes over: {reason}"
        await self._change("worker", term, reason, sentence, restart=False)
        self._takeover = asyncio.create_task(self._take_over(term, reason), name=f"takeover in term {term.number}")

    async def _take_over(self, term: Term, reason: str) -> None:
        """Become the master under ``term``, unless it is over by then."""
        async with self._taking_over:  # what an earlier one does cannot be interrupted
            if not self._holds(term):
                return
            try:
                await asyncio.to_thread(self._become_master, term)
            except SecmonError as error:
                self.failed(f"{self._settings.node} could not take over: {error}")
                return
            except Exception:  # whatever it is, another node shall have its turn; logged
                log.exception("the takeover failed")
                self.failed(f"{self._settings.node} could not take over: internal error, see its log")
                return
        if self._holds(term):
            await self._change("master", term, reason, f"term {term.number}: this node is the master")

    async def _step_down(self, reason: str) -> None:
        self._known = self._known.stepped_down()
        await self._change("worker", self._known.known, reason, f"this node is not the master any more: {reason}")

    async def _change(self, role: Role, term: Term | None, reason: str, sentence: str, *, restart: bool = True) -> None:
        """Note the role and give it to the daemons; one line in the log."""
        log.info("%s", sentence)
        self._counters.add("leadership.changes")
        self._role, self._reason = CurrentRole(role, term, reason), reason
        await self._publish(self._role, restart)

    def _holds(self, term: Term) -> bool:
        return self._known.holding and self._known.known == term

    @property
    def _held(self) -> Term:
        assert self._known.known is not None, "a holder knows its term"
        return self._known.known

    # Contact with the database

    def _look(self, connection: Connection, done: bool = True) -> Reading:
        return self._lookout.look(connection, self._known, done)

    async def _attempt(self, work: Callable[[Connection], Reading], *, jitter: bool = False) -> Reading | None:
        """Run ``work`` and keep what it has read; None if the database did not answer."""
        sent, pause = self._clock.boottime(), self._settings.timing.contact
        pause *= self._random.uniform(0.75, 1.25) if jitter else 1.0
        self._known = replace(self._known, next_contact=sent + pause)
        try:
            found = await self._contact.do(work)
            if found.row is None:
                raise SecmonError(3050, "it holds nothing yet: run secmon store migrate on the node with the data")
        except SecmonError as error:
            self._counters.add("leadership.contacts_failed")
            self._known = self._known.unanswered()
            self._trouble_since = self._trouble_since or iso_z(self._clock.now())
            self._trouble = error.extra or error.message
            self._trouble_log.note("the store of record does not answer: %s", self._trouble)
            return None
        if self._trouble_log.over():
            log.info("the store of record answers again")
        self._trouble, self._trouble_since, self._contacted = "", "", sent
        self._take(found)
        return found

    def _take(self, found: Reading) -> None:
        row, me = found.row, found.me
        assert row is not None, "checked by the attempt"
        if me.obstacle and me.obstacle != self._known.obstacle:
            log.warning("this node cannot become master: %s", me.obstacle)
        elif self._known.obstacle and self._known.row is not None and not me.obstacle:
            log.info("this node can become master")
        rivals = [each for each in found.candidates if not each.at(me) and not each.holds(row.term)]
        self._known = replace(
            self._known.read(row, self._clock.boottime()),
            address=me.address,
            port=me.port,
            obstacle=me.obstacle,
            outranked=any(candidates.goes_first(each, me) for each in rivals),
        )
        self._reason, self._candidates = row.reason, found.candidates
        self._counters.set("leadership.term", row.term.number)
        self._counters.set("leadership.master", int(self._role.role == "master"))
