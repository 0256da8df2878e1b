"""Responses that this server runs: programs in ``active-response/bin``, undone after their time.

A program gets one JSON object on its standard input: ``command`` is ``add``, and ``delete`` to undo. One that is to be
undone first names the keys of what it is about (``check_keys``), such as an address, and gets ``continue``, or
``abort`` when that is in force already.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.child_process import Process
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.config.responses import ActiveResponse
from secmon.outputs.alert import Alert
from secmon.outputs.responses.agent_responses import MANAGER, MODULE
from secmon.outputs.responses.pending_undo import PendingUndo, Undo

log = logging.getLogger("secmon.responses")

FOLDER = "active-response/bin"
RUN_SECONDS = 30.0
"""For one run of a program."""
TICK_SECONDS = 0.5
"""Between two looks whether something is to be undone."""
_MOST_ANSWER = 1 << 16
_MOST_PENDING, _MOST_OFFENDERS = 10_000, 10_000

Message = dict[str, Any]


class ServerResponses:
    """Runs programs, one at a time. Also undoes them: see :meth:`undo`."""

    def __init__(
        self, root: Path, pending: PendingUndo, *, offences: Sequence[int], node: str, clock: Clock, counters: Counters
    ) -> None:
        """``offences``: seconds of the second, third, ... response with the same keys."""
        self._root = root
        self._pending = pending
        self._offences = tuple(offences)
        self._node = node
        self._clock = clock
        self._counters = counters
        self._offenders: OrderedDict[str, int] = OrderedDict()
        self._turn = asyncio.Lock()

    @staticmethod
    def wants(response: ActiveResponse, alert: Alert) -> bool:
        """Whether this server runs it: always, or for an alert of its own."""
        return response.location == "server" or (
            response.location == "local" and alert.text("agent", "id") in ("", MANAGER)
        )

    async def answer(self, response: ActiveResponse, alert: Alert) -> None:
        """Run a response. A failure is logged and counted."""
        program = self._program(response.command.executable)
        if program is None:
            self._counters.add("responses.failed")
            log.error("The response %s: %r is no name of a program", response.name, response.command.executable)
            return
        parameters = {
            "extra_args": list(response.command.arguments), "alert": alert.fields, "program": program,
        }  # fmt: skip
        message: Message = {
            "version": 1,
            "origin": {"name": self._node, "module": MODULE},
            "command": "add",
            "parameters": parameters,
        }
        async with self._turn:
            if await self._run(program, message, response.timeout):
                self._counters.add("responses.run")

    async def undo(self) -> None:
        """Undo what is due, until cancelled."""
        while True:
            for one in self._pending.due(self._clock.now().timestamp()):
                async with self._turn:
                    if await self._run(one.program, {**one.message, "command": "delete"}, 0):
                        self._counters.add("responses.undone")
                    self._pending.remove(one.key)  # a program that fails is not run again: it may have done its part
            self._counters.set("responses.to_be_undone", len(self._pending))
            await asyncio.sleep(TICK_SECONDS)

    def _program(self, executable: str) -> str | None:
        """Its path below the root."""
        plain = executable and "/" not in executable and executable not in (".", "..")
        return f"{FOLDER}/{executable}" if plain else None

    async def _run(self, program: str, message: Message, timeout: int) -> bool:
        """Whether the program has done its part; else the reason is logged, and counted."""
        try:
            async with asyncio.timeout(RUN_SECONDS):
                async with await Process.start([str(self._root / program)], self._root, with_input=True) as process:
                    status = await self._converse(process, program, message, timeout)
        except TimeoutError:
            return self._failed(program, f"it has not ended within {RUN_SECONDS:g} s")
        except OSError as error:
            return self._failed(program, os_text(error))
        return self._failed(program, f"it ends with status {status}") if status else True

    async def _converse(self, process: Process, program: str, message: Message, timeout: int) -> int:
        """The exit status. Raises OSError."""
        assert process.input is not None, "asked for"
        await _say(process.input, message)
        if timeout:
            keys = _keys(await process.output.readline())
            if keys is not None:
                key = "\n".join([program, *keys])
                known = key in self._pending
                await asyncio.to_thread(self._remember, key, program, message, timeout)
                await _say(process.input, self._control("abort" if known else "continue"))
            else:
                fallback = "\n".join([program, msgspec.json.encode(_subject(message)).decode()])
                await asyncio.to_thread(self._remember, fallback, program, message, timeout)
        process.input.close()
        while await process.output.read(_MOST_ANSWER):
            pass
        return await process.wait()

    def _remember(self, key: str, program: str, message: Message, timeout: int) -> None:
        """To be undone after ``timeout`` seconds, or later for one who has offended before. Raises OSError."""
        if len(self._pending) >= _MOST_PENDING and key not in self._pending:
            raise OSError(None, f"{_MOST_PENDING} responses are waiting to be undone already")
        offence = self._offenders.pop(key, -1) + 1
        self._offenders[key] = offence
        while len(self._offenders) > _MOST_OFFENDERS:
            self._offenders.popitem(last=False)
        seconds = self._offences[min(offence, len(self._offences)) - 1] if offence and self._offences else timeout
        due = self._clock.now().timestamp() + seconds
        self._pending.put(Undo(key=key, program=program, message=message, due=due))

    def _control(self, command: str) -> Message:
        return {
            "version": 1, "origin": {"name": self._node, "module": MODULE}, "command": command, "parameters": {},
        }  # fmt: skip

    def _failed(self, program: str, reason: str) -> bool:
        self._counters.add("responses.failed")
        log.error("%s: %s", program, reason)
        return False


async def _say(stream: asyncio.StreamWriter, message: Message) -> None:
    """One line. A program that does not read it is judged by its exit status."""
    try:
        stream.write(msgspec.json.encode(message) + b"\n")
        await stream.drain()
    except ConnectionError:
        log.debug("A program of a response does not read its input")


def _keys(line: bytes) -> list[str] | None:
    """The keys in a message ``check_keys``; None for something else."""
    try:
        message = msgspec.json.decode(line)
        keys = message["parameters"]["keys"] if message["command"] == "check_keys" else None
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return None
    return [str(one) for one in keys] if isinstance(keys, list) else None


def _subject(message: Message) -> list[object]:
    """What a response is about, for a program that names no keys."""
    data = message["parameters"]["alert"].get("data")
    return [data.get("srcip"), data.get("dstuser")] if isinstance(data, dict) else []
