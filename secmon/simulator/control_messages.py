"""What an agent does with the control messages of its server (agent-link.md 6, 7.5, 8, 9)."""

import json
from collections import OrderedDict
from typing import Protocol

from secmon.simulator.dialect import Dialect
from secmon.simulator.group_file import GroupFile, Malformed, Receiver
from secmon.simulator.misbehaviour import Habit
from secmon.simulator.options import Timing
from secmon.simulator.shared import Command, Shared
from secmon.simulator.timer_wheel import Timer

MARKER = b"#!-"
MERGED = "merged.mg"
_ATTEMPTS = 4
_REMEMBERED = 16


class Answering(Protocol):
    """Answers requests."""

    def answer(self, target: str, payload: bytes) -> bytes: ...


class Obedient(Protocol):
    """The agent that carries orders out."""

    shared: Shared
    habit: Habit
    dialect: Dialect

    @property
    def id(self) -> str: ...
    @property
    def desk(self) -> "Answering": ...
    @property
    def datagrams(self) -> bool:
        """Whether messages may get lost on the way."""

    @property
    def timing(self) -> Timing: ...
    def send(self, text: bytes) -> None: ...
    def notice(self, text: str) -> None:
        """Send an event about the agent itself."""

    def acknowledged(self) -> None: ...
    def refused(self) -> None: ...
    def take(self, file: GroupFile) -> None: ...
    def restart(self) -> None: ...
    def reconnect(self) -> None: ...


class Orders:
    """Takes the texts of one agent's server; ``forget`` at the end of each connection."""

    def __init__(self, agent: Obedient) -> None:
        self._agent = agent
        self._receiver: Receiver | None = None
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()  # UDP: sent, by counter
        self._repeats: dict[bytes, Timer] = {}

    def forget(self) -> None:
        self._receiver = None
        self._answers.clear()
        for timer in self._repeats.values():
            timer.cancel()
        self._repeats.clear()

    def take(self, text: bytes) -> None:
        """One text of the server."""
        if not text.startswith(MARKER):
            if self._receiver is not None:
                self._receiver.piece(self._agent.habit.piece(text))
            return
        order = text[len(MARKER) :]
        if order == b"agent ack ":
            self._agent.acknowledged()
        elif order.startswith(b"req "):
            self._request(order[4:])
        elif order.startswith(b"up file "):
            self._file_begins(order[8:])
        elif order.startswith(b"close file "):
            self._file_ends()
        elif order.startswith(b"err "):
            self._agent.shared.counters.errors += 1
            self._agent.refused()
        else:
            self._command(order)

    # Group files

    def _file_begins(self, words: bytes) -> None:
        parts = words.decode("utf-8", "replace").split()
        if len(parts) == 2:
            name = parts[1].replace("/", "-")
            self._receiver = Receiver(parts[0], name, self._agent.shared.known)

    def _file_ends(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        counters = self._agent.shared.counters
        try:
            file = receiver.close()
        except Malformed:
            file = None
            self._agent.notice("wazuh: Could not unmerge shared file.")
        if file is None:
            counters.pushes_bad += 1
        elif receiver.name == MERGED:
            counters.pushes += 1
            if file.config_problem:
                self._agent.notice("wazuh: Invalid remote configuration: 'syscheck'. ")
            self._agent.take(file)

    # Requests

    def _request(self, rest: bytes) -> None:
        agent = self._agent
        counter, _, body = rest.partition(b" ")
        if not agent.dialect.requests or not counter:
            return
        if agent.datagrams:
            if body == b"ack":
                self._delivered(counter)
                return
            agent.send(b"#!-req %b ack" % counter)
            if counter in self._answers:
                self._send_answer(counter)
                return
        agent.shared.counters.requests += 1
        if not agent.habit.answers:
            return
        target, _, payload = body.partition(b" ")
        self._answers[counter] = agent.desk.answer(target.decode("utf-8", "replace"), payload)
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        agent.shared.counters.answers += 1
        self._send_answer(counter, _ATTEMPTS if agent.datagrams else 1)
        if not agent.datagrams:
            self._answers.clear()

    def _send_answer(self, counter: bytes, attempts: int = 1) -> None:
        """Send it; over UDP again and again until it is acknowledged, ``attempts`` times in all."""
        answer = self._answers.get(counter)
        if answer is None:
            return
        self._agent.send(b"#!-req %b %b" % (counter, answer))
        if attempts > 1:
            pause = self._agent.timing.request_repeat
            again = self._agent.shared.wheel.later(pause, lambda: self._send_answer(counter, attempts - 1))
            self._repeats[counter] = again
        else:
            self._repeats.pop(counter, None)

    def _delivered(self, counter: bytes) -> None:
        timer = self._repeats.pop(counter, None)
        if timer is not None:
            timer.cancel()

    # Commands

    def _command(self, order: bytes) -> None:
        text = order.decode("utf-8", "replace")
        agent = self._agent
        if text.startswith("execd "):
            self._execute(text[6:])
        elif text == "force_reconnect":
            self._record("reconnect", text, text)
            if agent.dialect.key_hash:
                agent.reconnect()
        elif text == "syscheck restart":
            self._record("scan", text, text)
        else:
            first, _, rest = text.partition(" ")
            synchronising = rest.startswith("dbsync ") or first.startswith("sca-dump:")
            self._record("sync" if synchronising else "other", first, text)

    def _execute(self, text: str) -> None:
        """An active response; restarts come as one (agent-link.md 9)."""
        name = _json_command(text) if self._agent.dialect.json_responses else text.partition(" ")[0]
        if name.startswith(("restart-wazuh", "restart-ossec")):
            self._record("restart", name, text)
            self._agent.restart()
        else:
            self._record("active-response" if name else "other", name, text)

    def _record(self, kind: str, name: str, text: str) -> None:
        self._agent.shared.counters.commands += 1
        self._agent.shared.commands.append(Command(self._agent.id, kind, name, text))


def _json_command(text: str) -> str:
    """The command of a response in JSON, whatever follows it; empty when there is none."""
    try:
        body, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return ""
    command = body.get("command") if isinstance(body, dict) else None
    return command if isinstance(command, str) else ""
