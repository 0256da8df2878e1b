"""The agent's handling of the server's control messages (agent-link.md 6, 7.5, 8, 9)."""

import json
from collections import OrderedDict
from typing import Protocol

from secmon.simulator.dialect import Dialect
from secmon.simulator.fleet_state import Command, FleetState
from secmon.simulator.group_file import GroupFile, GroupFileReceiver, MalformedFile
from secmon.simulator.misbehaviour import Behaviour
from secmon.simulator.options import Timing
from secmon.simulator.timer_wheel import Timer

MARKER = b"#!-"
MERGED = "merged.mg"
_ATTEMPTS = 4
_REMEMBERED = 16


class Handler(Protocol):
    """Answers requests."""

    def answer(self, target: str, payload: bytes) -> bytes: ...


class Host(Protocol):
    """Obeys commands about scans."""

    def command(self, text: str) -> None: ...


class ControlledAgent(Protocol):
    """The agent that control messages act on."""

    fleet: FleetState
    behaviour: Behaviour
    dialect: Dialect

    @property
    def id(self) -> str: ...
    @property
    def request_handler(self) -> "Handler": ...
    @property
    def datagrams(self) -> bool:
        """Whether messages may be lost in transit."""

    @property
    def timing(self) -> Timing: ...
    def send(self, text: bytes) -> None: ...
    def notice(self, text: str) -> None:
        """Send an event about the agent itself."""

    def acknowledged(self) -> None: ...
    def refused(self) -> None: ...
    def take(self, file: GroupFile) -> None: ...
    @property
    def host(self) -> "Host": ...
    def restart(self) -> None: ...
    def reconnect(self) -> None: ...


class ControlMessages:
    """Handles the texts of the server for one agent; call ``forget`` at the end of each connection."""

    def __init__(self, agent: ControlledAgent) -> None:
        self._agent = agent
        self._receiver: GroupFileReceiver | None = None
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()  # UDP: sent, by counter
        self._repeats: dict[bytes, Timer] = {}

    def forget(self) -> None:
        self._receiver = None
        self._answers.clear()
        for timer in self._repeats.values():
            timer.cancel()
        self._repeats.clear()

    def take(self, text: bytes) -> None:
        """Handle one text of the server."""
        if not text.startswith(MARKER):
            if self._receiver is not None:
                self._receiver.piece(self._agent.behaviour.piece(text))
            return
        message = text[len(MARKER) :]
        if message == b"agent ack ":
            self._agent.acknowledged()
        elif message.startswith(b"req "):
            self._request(message[4:])
        elif message.startswith(b"up file "):
            self._file_begins(message[8:])
        elif message.startswith(b"close file "):
            self._file_ends()
        elif message.startswith(b"err "):
            self._agent.fleet.counters.errors += 1
            self._agent.refused()
        else:
            self._command(message)

    # Group files

    def _file_begins(self, words: bytes) -> None:
        parts = words.decode("utf-8", "replace").split()
        if len(parts) == 2:
            name = parts[1].replace("/", "-")
            self._receiver = GroupFileReceiver(parts[0], name, self._agent.fleet.known)

    def _file_ends(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        counters = self._agent.fleet.counters
        try:
            file = receiver.close()
        except MalformedFile:
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
        agent.fleet.counters.requests += 1
        if not agent.behaviour.answers:
            return
        target, _, payload = body.partition(b" ")
        self._answers[counter] = agent.request_handler.answer(target.decode("utf-8", "replace"), payload)
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        agent.fleet.counters.answers += 1
        self._send_answer(counter, _ATTEMPTS if agent.datagrams else 1)
        if not agent.datagrams:
            self._answers.clear()

    def _send_answer(self, counter: bytes, attempts: int = 1) -> None:
        """Send an answer; over UDP until it is acknowledged, at most ``attempts`` times."""
        answer = self._answers.get(counter)
        if answer is None:
            return
        self._agent.send(b"#!-req %b %b" % (counter, answer))
        if attempts > 1:
            pause = self._agent.timing.request_repeat
            again = self._agent.fleet.wheel.later(pause, lambda: self._send_answer(counter, attempts - 1))
            self._repeats[counter] = again
        else:
            self._repeats.pop(counter, None)

    def _delivered(self, counter: bytes) -> None:
        timer = self._repeats.pop(counter, None)
        if timer is not None:
            timer.cancel()

    # Commands

    def _command(self, message: bytes) -> None:
        text = message.decode("utf-8", "replace")
        agent = self._agent
        if text.startswith("execd "):
            self._execute(text[6:])
        elif text == "force_reconnect":
            self._record("reconnect", text, text)
            if agent.dialect.key_hash:
                agent.reconnect()
        elif text == "syscheck restart":
            self._record("scan", text, text)
            agent.host.command(text)
        else:
            first, _, rest = text.partition(" ")
            synchronising = rest.startswith("dbsync ") or first.startswith("sca-dump:")
            self._record("sync" if synchronising else "other", first, text)
            if synchronising:
                agent.host.command(text)

    def _execute(self, text: str) -> None:
        """Handle an active response; restarts are active responses too (agent-link.md 9)."""
        name = _json_command(text) if self._agent.dialect.json_responses else text.partition(" ")[0]
        if name.startswith(("restart-wazuh", "restart-ossec")):
            self._record("restart", name, text)
            self._agent.restart()
        else:
            self._record("active-response" if name else "other", name, text)

    def _record(self, kind: str, name: str, text: str) -> None:
        self._agent.fleet.counters.commands += 1
        self._agent.fleet.commands.append(Command(self._agent.id, kind, name, text))


def _json_command(text: str) -> str:
    """The command of an active response in JSON, which other text may follow; empty without one."""
    try:
        body, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return ""
    command = body.get("command") if isinstance(body, dict) else None
    return command if isinstance(command, str) else ""
