"""Behaviours of misbehaving agents: each is one deviation from a correct agent."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Protocol

from secmon.agents.wire.keys import AgentKey
from secmon.simulator.options import Misbehaviour, Timing
from secmon.simulator.transport import Link

_OFTEN = 0.1  # of the time between keepalives
_BURST = 200
_REMEMBERED = 64
_LOST = 0.2  # of the messages
_SUM = re.compile(rb'("checksum":")[0-9a-f]{40}')


class MisbehavingAgent(Protocol):
    """The agent, for its behaviour."""

    link: Link | None
    offset: timedelta
    """Of the agent's clock."""

    @property
    def timing(self) -> Timing: ...
    @property
    def random(self) -> Random: ...
    def later(self, name: str, delay: float, callback: Callable[[], None]) -> None:
        """Call back after ``delay`` seconds unless the connection has ended or ``name`` was set again."""

    def send(self, text: bytes) -> None: ...
    def send_event(self) -> None: ...
    def send_keepalive(self) -> None: ...
    def fall_silent(self) -> None:
        """Send no more keepalives and events on this connection."""

    def reconnect(self) -> None:
        """End the connection and make a new one."""

    def open_second(self) -> None:
        """Open a second connection and send the startup on it."""


class ScannedHost(Protocol):
    """The host of the agent, as its scanners see it."""

    def restore_backup(self) -> None:
        """Return to an earlier state."""


class Behaviour:
    """A correct agent; subclasses override their deviation."""

    answers = True
    """Whether requests are answered."""
    installs = True
    """Whether packages can be installed."""

    def key(self, key: AgentKey) -> AgentKey:
        """The key that messages are sealed with."""
        return key

    def piece(self, data: bytes) -> bytes:
        """A received piece of a group file, as the agent stores it."""
        return data

    def sent(self, payload: bytes) -> None:
        """A payload was sent."""

    def reports(self, texts: list[bytes], random: Random) -> list[bytes]:
        """What becomes of messages about the host."""
        return texts

    def scanning(self, host: ScannedHost) -> None:
        """A scan of the host begins."""

    def connected(self, agent: MisbehavingAgent) -> None:
        """The server has acknowledged the startup."""


class _Periodic(Behaviour, ABC):
    """Acts at intervals while the agent is connected."""

    interval = _OFTEN

    def connected(self, agent: MisbehavingAgent) -> None:
        pause = self.interval * agent.timing.notify

        def turn() -> None:
            agent.later("misbehaviour", pause, turn)
            self.act(agent)

        agent.later("misbehaviour", pause, turn)

    @abstractmethod
    def act(self, agent: MisbehavingAgent) -> None:
        """What it does at each interval."""


class _Flood(_Periodic):
    interval = 0.002

    def act(self, agent: MisbehavingAgent) -> None:
        for _ in range(_BURST):
            if agent.link is None or agent.link.full:
                return
            agent.send_event()


class _StopsReading(Behaviour):
    def connected(self, agent: MisbehavingAgent) -> None:
        if agent.link is not None:
            agent.link.pause()


class _HalfFrame(_Periodic):
    def act(self, agent: MisbehavingAgent) -> None:
        if agent.link is not None:
            agent.link.send_raw((1000).to_bytes(4, "little") + b"!001!#AES:" + agent.random.randbytes(40))
        agent.fall_silent()
        agent.later("misbehaviour", 5 * _OFTEN * agent.timing.notify, agent.reconnect)


class _WrongKey(Behaviour):
    def key(self, key: AgentKey) -> AgentKey:
        return replace(key, key=key.key[::-1] + "0")


class _Replay(_Periodic):
    def __init__(self) -> None:
        self._sent: list[bytes] = []

    def sent(self, payload: bytes) -> None:
        if len(self._sent) < _REMEMBERED:
            self._sent.append(payload)

    def act(self, agent: MisbehavingAgent) -> None:
        for payload in agent.random.choices(self._sent, k=5):
            if agent.link is not None:
                agent.link.send(payload)


class _RandomBytes(_Periodic):
    def act(self, agent: MisbehavingAgent) -> None:
        if agent.link is None:
            return
        random = agent.random
        junk = random.randbytes(random.randrange(1, 2000))
        if random.random() < 0.5:
            agent.link.send(junk)
        else:
            agent.link.send_raw(junk)
        agent.later("misbehaviour", 2 * _OFTEN * agent.timing.notify, agent.reconnect)


class _NoAnswers(Behaviour):
    answers = False


class _CorruptFiles(Behaviour):
    def piece(self, data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1])


class _JumpingClock(_Periodic):
    interval = 3 * _OFTEN

    def act(self, agent: MisbehavingAgent) -> None:
        agent.offset = timedelta(hours=agent.random.randrange(-48, 49))
        for _ in range(agent.random.randrange(1, 20)):
            agent.send_keepalive()


class _ConnectsTwice(_Periodic):
    interval = 2 * _OFTEN

    def act(self, agent: MisbehavingAgent) -> None:
        agent.open_second()


class _LosesReports(Behaviour):
    def reports(self, texts: list[bytes], random: Random) -> list[bytes]:
        return [text for text in texts if random.random() >= _LOST]


class _ShufflesReports(Behaviour):
    def reports(self, texts: list[bytes], random: Random) -> list[bytes]:
        return random.sample(2 * texts, 2 * len(texts))


class _RestoredFromBackup(Behaviour):
    def scanning(self, host: ScannedHost) -> None:
        host.restore_backup()


class _WrongSums(Behaviour):
    def reports(self, texts: list[bytes], random: Random) -> list[bytes]:
        wrong = b"%040x" % random.getrandbits(160)
        return [_SUM.sub(rb"\g<1>" + wrong, text) if b'"integrity_check_' in text else text for text in texts]


class _FailedUpgrade(Behaviour):
    installs = False


_KINDS: dict[Misbehaviour, type[Behaviour]] = {
    Misbehaviour.FLOOD: _Flood,
    Misbehaviour.DEAF: _StopsReading,
    Misbehaviour.HALF: _HalfFrame,
    Misbehaviour.WRONG_KEY: _WrongKey,
    Misbehaviour.REPLAY: _Replay,
    Misbehaviour.RANDOM: _RandomBytes,
    Misbehaviour.MUTE: _NoAnswers,
    Misbehaviour.CORRUPT: _CorruptFiles,
    Misbehaviour.CLOCK: _JumpingClock,
    Misbehaviour.TWICE: _ConnectsTwice,
    Misbehaviour.LOSSY: _LosesReports,
    Misbehaviour.SHUFFLE: _ShufflesReports,
    Misbehaviour.RESTORED: _RestoredFromBackup,
    Misbehaviour.WRONG_SUMS: _WrongSums,
    Misbehaviour.BAD_UPGRADE: _FailedUpgrade,
}


def behaviour_of(kind: Misbehaviour | None) -> Behaviour:
    """The behaviour of one agent; ``kind`` None: a correct agent."""
    return Behaviour() if kind is None else _KINDS[kind]()
