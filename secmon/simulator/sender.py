"""Messages of one agent: encrypted with its key, in the dialect of its version."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import cycle
from random import Random

from secmon.agents.wire.crypto import Cipher
from secmon.agents.wire.keys import AgentKey
from secmon.simulator.channel import Channel
from secmon.simulator.dialect import Dialect
from secmon.simulator.events import Events
from secmon.simulator.fleet_state import FleetState
from secmon.simulator.misbehaviour import Behaviour
from secmon.simulator.profiles import Profile, keepalive
from secmon.simulator.transport import Link


class MessageSender:
    """Sends the messages of an agent that has a key. ``now`` is the clock of its host."""

    def __init__(
        self,
        fleet: FleetState,
        key: AgentKey,
        profile: Profile,
        dialect: Dialect,
        behaviour: Behaviour,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._fleet, self._key, self._profile, self._dialect, self._behaviour = fleet, key, profile, dialect, behaviour
        self._now = now
        chosen = fleet.options.cipher
        aes = dialect.aes if chosen == "auto" else chosen == "aes"
        start = int(fleet.clock.now().timestamp())
        self._channel = Channel(behaviour.key(key), Cipher.AES if aes else Cipher.BLOWFISH, start)
        self._events: Events | None = None  # most fleets send none
        self._sealed: Iterator[bytes] | None = None

    def open(self, payload: bytes) -> bytes:
        """Decrypt a payload of the server. Raises MessageError."""
        return self._channel.open(payload)

    def send(self, link: Link, text: bytes) -> None:
        """Encrypt and send one text."""
        payload = self._channel.seal(text)
        self._behaviour.sent(payload)
        self._transmit(link, payload)

    def startup(self, link: Link) -> None:
        version = f'{{"version":"{self._dialect.version}"}}' if self._dialect.startup_version else ""
        self.send(link, f"#!-agent startup {version}".encode())
        self._fleet.counters.startups += 1

    def shutdown(self, link: Link) -> None:
        """Announce the shutdown, if the agent's version does so."""
        if self._dialect.shutdown:
            self.send(link, b"#!-agent shutdown ")
            self._fleet.counters.shutdowns += 1

    def keepalive(self, link: Link, *, config_sum: str, merged_sum: str) -> None:
        """Send a keepalive. Empty sums: there is no such file yet."""
        text = keepalive(
            self._profile.system(self._key.name, self._dialect),
            self._dialect,
            config_sum=config_sum,
            labels=_label_lines(tuple(self._fleet.options.labels.items())),
            merged_sum=merged_sum,
            address=link.local_address,
            random=self._fleet.random,
        )
        self.send(link, text.encode())
        self._fleet.counters.keepalives += 1

    def event(self, link: Link) -> None:
        """Send the next event of the agent's source."""
        if self._fleet.options.sealed_once:
            self._transmit(link, self._next_sealed())
        else:
            self.send(link, self._source().next())
        self._fleet.counters.events += 1

    def notice(self, link: Link, text: str) -> None:
        """Send an event about the agent itself."""
        self.send(link, f"1:{self._dialect.daemon}:{text}".encode())
        self._fleet.counters.events += 1

    def _transmit(self, link: Link, payload: bytes) -> None:
        self._fleet.counters.messages_out += 1
        self._fleet.counters.bytes_out += link.send(payload)

    def _source(self) -> Events:
        if self._events is None:
            options = self._fleet.options
            self._events = Events(
                self._key.name,
                self._profile,
                self._dialect,
                options.content,
                random=Random(f"{options.seed}:{self._key.name}"),
                now=self._now,
            )
        return self._events

    def _next_sealed(self) -> bytes:
        if self._sealed is None:
            source = self._source()
            self._sealed = cycle([self._channel.seal(source.next()) for _ in range(self._fleet.options.sealed_once)])
        return next(self._sealed)


def _label_lines(labels: tuple[tuple[str, str], ...]) -> str:
    """The label lines of a keepalive; keys with a leading ``!`` are hidden."""
    lines = (f'{"!" * key.startswith("!")}"{key.removeprefix("!")}":{value}\n' for key, value in labels)
    return "".join(lines)
