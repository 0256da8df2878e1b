"""The processes that look ahead for the engine: one for each further core (analysis by several engines).

All of it runs in the engine's thread, which never blocks on a process: it writes what fits, reads what has come, and
waits for an answer for a bounded time only. What a process that died or hangs had in hand is done by the engine itself.
"""

import logging
import os
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.common.ipc.framing import take_frames
from secmon.engine.lookahead.process import Batch, Done, Failed, Ready, Rules, encoded
from secmon.engine.ruleset.compiled import Settings
from secmon.engine.ruleset.files import Sources

log = logging.getLogger("secmon.analysisd")

MOST = 8
"""Helpers that are started without being asked for."""
FEW_CORES = 2
"""With so many cores there are none: the link with agents and the API need the other one."""
IN_FLIGHT = 3
"""Batches that one helper may have in hand."""
ANSWER_SECONDS = 5.0
"""That the engine waits for one batch before it gives its helper up."""
READY_SECONDS = 120.0
"""That a helper may take to compile its rules."""
BACKOFF_SECONDS = 0.5
"""Before a helper that was lost is started anew; twice as long each time, until one has answered."""
MAX_BACKOFF_SECONDS = 60.0
_CHUNK = 1 << 18
_BUFFER = 1 << 20


def helpers_for(engines: int) -> int:
    """Processes besides the engine's own for the option ``analysisd.engines``."""
    if engines:
        return engines - 1
    cores = len(os.sched_getaffinity(0))
    return min(MOST, cores - 1) if cores > FEW_CORES else 0


@dataclass(slots=True, eq=False)
class _Member:
    """One helper, or the pause before its next start. ``deadline``: monotonic seconds by which it must be ready."""

    process: subprocess.Popen[bytes] | None = None
    link: socket.socket | None = None
    generation: int = -1
    """Of the ruleset that it has compiled."""
    out: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    in_flight: deque[int] = field(default_factory=deque)
    deadline: float = 0.0
    failures: int = 0
    start_at: float = 0.0


class Crew:
    """Helpers of one engine. For one thread, which calls :meth:`tend` now and then; ends with :meth:`close`."""

    def __init__(self, size: int, clock: Clock, *, host: bytes, everything: bool) -> None:
        """``size`` processes. ``everything``: all events are written, alerts or not."""
        self.answer_seconds = ANSWER_SECONDS
        self.restarts = 0
        """Helpers that died, hung or could not compile their rules."""
        self._clock = clock
        self._host, self._everything = host, everything
        self._members = [_Member() for _ in range(size)]
        self._rules = b""
        self._generation = 0
        self._numbers = 0
        self._answers: dict[int, Sequence[bytes]] = {}
        self._holders: dict[int, _Member] = {}
        self._decoder = msgspec.msgpack.Decoder(Ready | Failed | Done)

    @property
    def size(self) -> int:
        return len(self._members)

    @property
    def depth(self) -> int:
        """Batches that keep all helpers busy."""
        return len(self._members) * IN_FLIGHT

    @property
    def ready(self) -> int:
        """Helpers at work with the ruleset in force."""
        return sum(member.generation == self._generation for member in self._members)

    @property
    def pids(self) -> list[int]:
        return [process.pid for member in self._members if (process := member.process) is not None]

    def use(self, sources: Sources | None, settings: Settings) -> None:
        """Another ruleset is in force: helpers are of no use until each has compiled it. What was handed out is void.

        Without ``sources`` there is nothing for helpers to do.
        """
        self._generation += 1
        self._answers.clear()
        self._holders.clear()
        self._rules = b"" if sources is None else encoded(
            Rules(
                self._generation, sources.decoders, sources.lists, sources.rules, settings, self._host, self._everything
            )
        )  # fmt: skip
        for member in self._members:
            if member.link is not None and self._rules:
                self._send_rules(member)
        self.tend()

    def tend(self) -> None:
        """Start what is due, send and receive what can be without waiting."""
        now = self._clock.monotonic()
        for member in self._members if self._rules else ():
            if member.link is None:
                if now >= member.start_at:
                    self._start(member)
            elif member.generation != self._generation and now >= member.deadline:
                self._lose(member, "is not ready in time")
        self._exchange(0)

    def hand_out(self, messages: Sequence[bytes], moment: datetime) -> int | None:
        """Give a batch to the helper with the least to do: its number; None when all have enough."""
        able = [one for one in self._members if one.generation == self._generation and len(one.in_flight) < IN_FLIGHT]
        if not able:
            return None
        member = min(able, key=lambda one: len(one.in_flight))
        self._numbers += 1
        member.in_flight.append(self._numbers)
        member.out += encoded(Batch(self._numbers, moment.isoformat(), list(messages)))
        self._holders[self._numbers] = member
        self._send(member)
        return self._numbers

    def awaited(self, number: int) -> bool:
        """Whether the batch ``number`` is still with its helper; does not wait."""
        if number in self._holders:
            self._exchange(0)
        return number in self._holders

    def answers(self, number: int) -> Sequence[bytes]:
        """What was found out about the batch ``number``; empty when nothing was: its helper is lost. Waits, bounded."""
        until = self._clock.monotonic() + self.answer_seconds
        while number not in self._answers and (holder := self._holders.get(number)) is not None:
            left = until - self._clock.monotonic()
            if left <= 0:
                self._lose(holder, "does not answer")
            else:
                self._exchange(left)
        self._holders.pop(number, None)
        return self._answers.pop(number, ())

    def close(self) -> None:
        """End all processes."""
        for member in self._members:
            self._end(member)

    # One helper

    def _start(self, member: _Member) -> None:
        try:
            member.process, member.link = _spawn()
        except OSError as error:
            self._retire(member, f"cannot be started: {os_text(error)}")
        else:
            self._send_rules(member)

    def _send_rules(self, member: _Member) -> None:
        member.deadline = self._clock.monotonic() + READY_SECONDS
        member.out += self._rules
        self._send(member)

    def _lose(self, member: _Member, reason: str) -> None:
        """The engine does what the helper had in hand; another one is started later."""
        self._end(member)
        self._retire(member, reason)

    def _retire(self, member: _Member, reason: str) -> None:
        pause = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2**member.failures)
        self.restarts += 1
        member.failures += 1
        member.start_at = self._clock.monotonic() + pause
        log.error("A helper of the analysis %s; it is started anew in %g s", reason, pause)

    def _end(self, member: _Member) -> None:
        if member.link is not None:
            member.link.close()
        if member.process is not None:
            member.process.kill()
            member.process.wait()
        for number in member.in_flight:
            self._holders.pop(number, None)
        member.process = member.link = None
        member.generation = -1
        for each in (member.out, member.received, member.in_flight):
            each.clear()

    # What goes over the sockets

    def _exchange(self, seconds: float) -> None:
        """Send and receive; wait up to ``seconds`` until that is possible."""
        poll, linked = select.poll(), {}
        for member in self._members:
            if member.link is not None:
                poll.register(member.link, select.POLLIN | (select.POLLOUT if member.out else 0))
                linked[member.link.fileno()] = member
        for descriptor, events in poll.poll(seconds * 1000):
            member = linked[descriptor]
            if events & select.POLLOUT:
                self._send(member)
            if events & ~select.POLLOUT and member.link is not None:
                self._receive(member)

    def _send(self, member: _Member) -> None:
        """As much as fits. That the other side is gone shows when it is read from."""
        assert member.link is not None, "of a running helper"
        with suppress(BlockingIOError, ConnectionError):
            while member.out:
                del member.out[: member.link.send(member.out[:_CHUNK])]

    def _receive(self, member: _Member) -> None:
        assert member.link is not None, "of a running helper"
        ended = False
        try:
            while chunk := member.link.recv(_CHUNK):
                member.received += chunk
            ended = True
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        try:
            for data in take_frames(member.received):
                self._heard(member, self._decoder.decode(data))
        except msgspec.MsgspecError:
            ended = True
        if ended:
            self._lose(member, "has died")

    def _heard(self, member: _Member, message: Ready | Failed | Done) -> None:
        if isinstance(message, Ready):
            member.generation = message.generation
        elif isinstance(message, Failed):
            log.error("A helper of the analysis cannot use the ruleset: %s", message.reason)
        else:
            member.failures = 0
            member.in_flight.remove(message.number)
            if self._holders.pop(message.number, None) is not None:
                self._answers[message.number] = message.answers


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A helper, and this side of its socket, which does not block. Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            for one in (ours, theirs):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            # -P: the folder that the operator happens to stand in is not searched for modules.
            command = [sys.executable, "-P", "-m", "secmon.engine.lookahead.process", str(theirs.fileno())]
            null = subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, pass_fds=(theirs.fileno(),))
        ours.setblocking(False)
    except OSError:
        ours.close()
        raise
    return process, ours
