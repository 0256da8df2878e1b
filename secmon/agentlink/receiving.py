"""What happens to each payload of an agent (agent-link.md 4.3-4.5, 5.5, 11): the hot path."""

from collections.abc import Callable
from typing import Protocol

from secmon.agentlink.agent_table import Agent, AgentTable
from secmon.agentlink.control import Control
from secmon.agentlink.counters import LinkCounts, MessageCounts
from secmon.agentlink.event_losses import EventLosses
from secmon.agentlink.message_counters import CounterVerification
from secmon.agentlink.reply_path import ReplyPath
from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import Cipher
from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.frames import PING, PONG
from secmon.common.clock import Clock
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.journal.batch_writer import BatchWriter

_MARK = b"#!-"
_REPORT = b"u:upgrade_module:"
_INVENTORY = (b"d:syscollector:", b"5:syscollector:")
_BANG, _HASH = b"!"[0], b"#"[0]

MissingKeyHook = Callable[[str, str], None]
"""Told ``id`` or ``ip`` and its value when a key is missing or likely wrong (agent-link.md 2.5)."""


class Sender(ReplyPath, Protocol):
    """A route that also remembers which agent proved to use it."""

    agent: Agent | None

    def authenticated(self, agent: Agent) -> None:
        """The agent's first valid message has come this way."""

    def takes(self, agent: Agent, size: int) -> bool:
        """Asked while the queue of events is tight: whether there is room for one more of ``size`` bytes."""


class Hooks:
    """Others that want certain events too. Each is called on the loop and must return at once."""

    def __init__(
        self,
        *,
        report: Callable[[int, bytes], None] | None = None,
        inventory: Callable[[Agent, bytes], None] | None = None,
        missing_key: MissingKeyHook | None = None,
    ) -> None:
        """``report``: the agent's number and the payload of its report on an upgrade (10.6); ``inventory``: an agent
        and a whole message of its inventory (11.3)."""
        self.report = report
        self.inventory = inventory
        self.missing_key = missing_key


class MessageReceiver:
    """Judges payloads, and hands on what they say."""

    def __init__(
        self,
        agents: AgentTable,
        clock: Clock,
        counts: LinkCounts,
        events: BatchWriter,
        control: Control,
        warnings: WarningLimiter,
        hooks: Hooks,
        verification: CounterVerification | None,
        losses: EventLosses,
        *,
        overtake_seconds: float,
    ) -> None:
        self._agents = agents
        self._clock = clock
        self._counts = counts
        self._events = events
        self._control = control
        self._warnings = warnings
        self._hooks = hooks
        self._verification = verification
        self._losses = losses
        self._overtake = overtake_seconds

    def receive(self, route: Sender, payload: bytes) -> None:
        """One payload as it came over ``route``, which is closed when the payload is refused."""
        if payload[0] == _BANG:
            end = payload.find(b"!", 1) + 1
            agent = self._agents.by_mark.get(payload[:end])
            sealed = payload[end:]
            if agent is None:
                self._refuse_mark(route, payload[1 : end - 1], closed=end > 0)
                return
            if route.agent is not agent and not agent.may_come_from(route.source):
                self._refuse(route, f"agent {agent.key.id} is not registered with this address", ("id", agent.key.id))
                return
        elif payload[0] == _HASH and payload.startswith(PING):
            self._counts.ping += 1
            route.write(PONG)
            return
        else:
            agent = self._agents.by_address.get(route.source)
            sealed = payload
            if agent is None:
                self._refuse(route, "no agent is registered with this address", ("ip", route.source))
                return
        stale = agent.stream
        if stale is route or route.superseded:
            stale = None
        if stale is not None and not (stale.held or self._may_overtake(agent)):
            self._refuse(route, f"agent {agent.key.id} is connected from {stale.source}")
            return
        try:
            text, cipher, counter = agent.cipher.open(sealed)
        except MessageError as error:
            self._refuse_message(route, agent, error.reason)
            return
        if self._verification is not None and (why := self._verification.refusal(agent, counter)):
            self._refuse_message(route, agent, why)
            return
        if stale is not None:
            # What waits in a held connection came before this, and its events are not lost.
            stale.supersede() if stale.held else stale.close()
        self._accept(route, agent, text, cipher, counter, len(payload))

    def broken(self, route: Sender, why: str) -> None:
        """The stream of frames cannot go on."""
        self._refuse(route, f"a frame is refused ({why})")

    def _accept(self, route: Sender, agent: Agent, text: bytes, cipher: Cipher, counter: Counter, size: int) -> None:
        if route.agent is not agent:
            if counter <= agent.highest and route.stream:  # datagrams may overtake each other
                self._went_back(route, agent, counter)
            route.authenticated(agent)
        if counter > agent.highest:
            agent.highest = counter
        agent.last_valid = self._clock.monotonic()
        agent.answers_in = cipher
        self._counts.bytes_received += size
        counts = agent.counts
        if counts is None:
            counts = agent.counts = MessageCounts(int(self._clock.now().timestamp()))
        if text.startswith(_MARK) and route.superseded:
            self._counts.dequeued_after += 1
        elif text.startswith(_MARK):
            self._control.handle(agent, counts, route, text[len(_MARK) :])
        else:
            self._take_event(route, agent, counts, text)

    def _take_event(self, route: Sender, agent: Agent, counts: MessageCounts, text: bytes) -> None:
        end = text.find(0)
        if end >= 0:
            text = text[:end]
        if len(text) < 3 or text[1] != 58:  # ":"
            self._warnings.warn("Events without a queue", "Agent %s sent an event without a queue", agent.key.id)
            return
        if text.startswith(b"keepalive", 2):
            return
        line = b"%b%b%b" % (text[:2], agent.prefix, text[2:])
        if self._events.half_full and not route.takes(agent, len(line)):
            self._counts.discarded += 1
            self._losses.add(agent.key.id)
            return
        self._events.add(line)
        self._counts.event += 1
        counts.event += 1
        if text.startswith(_REPORT):
            if self._hooks.report is not None:
                self._hooks.report(agent.number, text[len(_REPORT) :])
        elif self._hooks.inventory is not None and text.startswith(_INVENTORY):
            self._hooks.inventory(agent, text)

    def _went_back(self, route: Sender, agent: Agent, counter: Counter) -> None:
        """A connection begins with a counter that the agent has used: agents keep theirs over restarts.

        It may come from a backup, so it is no reason to refuse the agent; see ``remoted.verify_msg_id``.
        """
        self._counts.counters_back += 1
        self._warnings.warn(
            "Message counters that went back",
            "%s: the message counter of agent %s went back from %d:%d to %d:%d: the agent was restored from a backup or"
            " installed again with its key, or somebody replays what it has sent",
            route.source, agent.key.id, *agent.highest, *counter,
        )  # fmt: skip

    def _may_overtake(self, agent: Agent) -> bool:
        return 0 < self._overtake < self._clock.monotonic() - agent.last_valid

    def _refuse_mark(self, route: Sender, mark: bytes, *, closed: bool) -> None:
        if closed and mark.isdigit():
            name = mark[:16].decode("ascii")
            self._refuse(route, f"agent {name} is not known", ("id", name))
        else:
            self._refuse(route, "a message is refused (format)")

    def _refuse_message(self, route: Sender, agent: Agent, reason: str) -> None:
        wanted = ("id", agent.key.id) if reason == "auth" else None
        self._refuse(route, f"a message in the name of agent {agent.key.id} is refused ({reason})", wanted)

    def _refuse(self, route: Sender, why: str, wanted: tuple[str, str] | None = None) -> None:
        """``wanted``: the key that is missing or likely wrong, as for :data:`MissingKeyHook`."""
        self._counts.unknown += 1
        self._warnings.warn("Refused messages", "%s: %s", route.source, why)
        if wanted and self._hooks.missing_key is not None:
            self._hooks.missing_key(*wanted)
        route.close()
