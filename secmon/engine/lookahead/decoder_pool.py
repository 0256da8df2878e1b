"""The pool of decoder processes: one for each further core (``analysisd.engines``).

All of it runs in the analysis thread, which never blocks on a process: it writes what fits, reads what has come, and
waits for a result for a bounded time only. The thread itself analyses the in-flight batches of a process that died or
hangs.
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
from secmon.engine.lookahead.decoder_process import (
    Batch,
    BatchResult,
    Loaded,
    LoadFailed,
    LoadRuleset,
    encode_frame,
)
from secmon.engine.ruleset.compiled import RulesetSettings
from secmon.engine.ruleset.sources import Sources

log = logging.getLogger("secmon.analysisd")

MAX_PROCESSES = 8
"""Processes that are started unless the option asks for more."""
FEW_CORES = 2
"""On hosts with so few cores there is no pool: the link with agents and the API need the other core."""
IN_FLIGHT = 3
"""Batches that one process may hold."""
ANSWER_SECONDS = 5.0
"""How long the thread waits for a batch before it kills the process."""
READY_SECONDS = 120.0
"""How long a process may take to compile its ruleset."""
BACKOFF_SECONDS = 0.5
"""Before a failed process is started again; twice as long each time, until a process has answered."""
MAX_BACKOFF_SECONDS = 60.0
_CHUNK = 1 << 18
_BUFFER = 1 << 20


def pool_size(engines: int) -> int:
    """Processes besides the daemon's own for the option ``analysisd.engines``; 0: by the number of cores."""
    if engines:
        return engines - 1
    cores = len(os.sched_getaffinity(0))
    return min(MAX_PROCESSES, cores - 1) if cores > FEW_CORES else 0


@dataclass(slots=True, eq=False)
class _Slot:
    """One process, or the pause before its next start. ``deadline``: monotonic seconds by which it must be ready."""

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


class DecoderPool:
    """For one thread, which calls :meth:`maintain` regularly; ends with :meth:`close`."""

    def __init__(self, size: int, clock: Clock, *, host: bytes, archiving: bool) -> None:
        """``size`` processes. ``archiving``: events without alerts are written too."""
        self.answer_seconds = ANSWER_SECONDS
        self.restarts = 0
        """Processes that died, hung or could not compile their ruleset."""
        self._clock = clock
        self._host, self._archiving = host, archiving
        self._slots = [_Slot() for _ in range(size)]
        self._ruleset = b""
        self._generation = 0
        self._last_number = 0
        self._results: dict[int, Sequence[bytes]] = {}
        self._in_flight: dict[int, _Slot] = {}
        self._decoder = msgspec.msgpack.Decoder(Loaded | LoadFailed | BatchResult)

    @property
    def size(self) -> int:
        return len(self._slots)

    @property
    def capacity(self) -> int:
        """Batches that keep all processes busy."""
        return len(self._slots) * IN_FLIGHT

    @property
    def ready(self) -> int:
        """Processes that have compiled the current ruleset."""
        return sum(slot.generation == self._generation for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        return [process.pid for slot in self._slots if (process := slot.process) is not None]

    def load(self, sources: Sources | None, settings: RulesetSettings) -> None:
        """Use another ruleset: results of the old one are dropped, and processes idle until they have compiled it.

        Without ``sources`` the pool is not used.
        """
        self._generation += 1
        self._results.clear()
        self._in_flight.clear()
        self._ruleset = b"" if sources is None else encode_frame(
            LoadRuleset(
                self._generation, sources.decoders, sources.lists, sources.rules, settings, self._host, self._archiving
            )
        )  # fmt: skip
        for slot in self._slots:
            if slot.link is not None and self._ruleset:
                self._send_ruleset(slot)
        self.maintain()

    def maintain(self) -> None:
        """Start processes that are due, send and receive as far as that does not block."""
        now = self._clock.monotonic()
        for slot in self._slots if self._ruleset else ():
            if slot.link is None:
                if now >= slot.start_at:
                    self._start(slot)
            elif slot.generation != self._generation and now >= slot.deadline:
                self._fail(slot, "did not compile the ruleset in time")
        self._exchange(0)

    def submit(self, messages: Sequence[bytes], moment: datetime) -> int | None:
        """Send a batch to the least busy process; its number, or None when all have enough."""
        able = [one for one in self._slots if one.generation == self._generation and len(one.in_flight) < IN_FLIGHT]
        if not able:
            return None
        slot = min(able, key=lambda one: len(one.in_flight))
        self._last_number += 1
        slot.in_flight.append(self._last_number)
        slot.out += encode_frame(Batch(self._last_number, moment.isoformat(), list(messages)))
        self._in_flight[self._last_number] = slot
        self._send(slot)
        return self._last_number

    def pending(self, number: int) -> bool:
        """Whether the batch ``number`` has no result yet; does not wait."""
        if number in self._in_flight:
            self._exchange(0)
        return number in self._in_flight

    def results(self, number: int) -> Sequence[bytes]:
        """The results of the batch ``number``; empty when its process failed. Waits for ``answer_seconds`` at most."""
        until = self._clock.monotonic() + self.answer_seconds
        while number not in self._results and (slot := self._in_flight.get(number)) is not None:
            left = until - self._clock.monotonic()
            if left <= 0:
                self._fail(slot, "does not answer")
            else:
                self._exchange(left)
        self._in_flight.pop(number, None)
        return self._results.pop(number, ())

    def close(self) -> None:
        """End all processes."""
        for slot in self._slots:
            self._kill(slot)

    # One process

    def _start(self, slot: _Slot) -> None:
        try:
            slot.process, slot.link = _spawn()
        except OSError as error:
            self._schedule_restart(slot, f"cannot be started: {os_text(error)}")
        else:
            self._send_ruleset(slot)

    def _send_ruleset(self, slot: _Slot) -> None:
        slot.deadline = self._clock.monotonic() + READY_SECONDS
        slot.out += self._ruleset
        self._send(slot)

    def _fail(self, slot: _Slot, reason: str) -> None:
        """Kill the process. The thread analyses its batches itself; another process is started later."""
        self._kill(slot)
        self._schedule_restart(slot, reason)

    def _schedule_restart(self, slot: _Slot, reason: str) -> None:
        pause = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2**slot.failures)
        self.restarts += 1
        slot.failures += 1
        slot.start_at = self._clock.monotonic() + pause
        log.error("A decoder process %s; it is restarted in %g s", reason, pause)

    def _kill(self, slot: _Slot) -> None:
        if slot.link is not None:
            slot.link.close()
        if slot.process is not None:
            slot.process.kill()
            slot.process.wait()
        for number in slot.in_flight:
            self._in_flight.pop(number, None)
        slot.process = slot.link = None
        slot.generation = -1
        for each in (slot.out, slot.received, slot.in_flight):
            each.clear()

    # Sockets

    def _exchange(self, seconds: float) -> None:
        """Send and receive; wait up to ``seconds`` until that is possible."""
        poll, by_descriptor = select.poll(), {}
        for slot in self._slots:
            if slot.link is not None:
                poll.register(slot.link, select.POLLIN | (select.POLLOUT if slot.out else 0))
                by_descriptor[slot.link.fileno()] = slot
        for descriptor, events in poll.poll(seconds * 1000):
            slot = by_descriptor[descriptor]
            if events & select.POLLOUT:
                self._send(slot)
            if events & ~select.POLLOUT and slot.link is not None:
                self._receive(slot)

    def _send(self, slot: _Slot) -> None:
        """As much as fits. A closed socket is noticed when it is read from."""
        assert slot.link is not None, "of a running process"
        with suppress(BlockingIOError, ConnectionError):
            while slot.out:
                del slot.out[: slot.link.send(slot.out[:_CHUNK])]

    def _receive(self, slot: _Slot) -> None:
        assert slot.link is not None, "of a running process"
        ended = False
        try:
            while chunk := slot.link.recv(_CHUNK):
                slot.received += chunk
            ended = True
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        try:
            for data in take_frames(slot.received):
                self._on_message(slot, self._decoder.decode(data))
        except msgspec.MsgspecError:
            ended = True
        if ended:
            self._fail(slot, "has died")

    def _on_message(self, slot: _Slot, message: Loaded | LoadFailed | BatchResult) -> None:
        if isinstance(message, Loaded):
            slot.generation = message.generation
        elif isinstance(message, LoadFailed):
            log.error("A decoder process cannot compile the ruleset: %s", message.reason)
        else:
            slot.failures = 0
            slot.in_flight.remove(message.number)
            if self._in_flight.pop(message.number, None) is not None:  # else: of the ruleset before this one
                self._results[message.number] = message.results


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process, and this side of its socket, which does not block. Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            for one in (ours, theirs):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            # -P: the working directory is not searched for modules.
            command = [sys.executable, "-P", "-m", "secmon.engine.lookahead.decoder_process", str(theirs.fileno())]
            null = subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, pass_fds=(theirs.fileno(),))
        ours.setblocking(False)
    except OSError:
        ours.close()
        raise
    return process, ours
