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
from secmon.agents.wire.crypto import Opened
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
"""Called with ``id`` or ``ip`` and its value when a key is missing or likely wrong (agent-link.md 2.5)."""


class Sender(ReplyPath, Protocol):
    """A reply path that also knows which agent has authenticated over it."""

    agent: Agent | None

    def authenticated(self, agent: Agent) -> None:
        """The agent's first valid message has come this way."""

    def accepts_event(self, agent: Agent, size: int) -> bool:
        """Asked while the queue of events is half full: whether there is room for one more of ``size`` bytes."""


class Hooks:
    """Other consumers of certain messages. Each is called on the loop and must return at once."""

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
    """Authenticates payloads, and passes their texts on as events or control messages."""

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
        """``overtake_seconds``: silence after which another connection may replace that of an agent; 0: never."""
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

    def receive(self, sender: Sender, payload: bytes) -> None:
        """Handle one payload. ``sender`` is closed when it is refused."""
        if payload[0] == _HASH and payload.startswith(PING):
            self._counts.ping += 1
            sender.write(PONG)
            return
        if (found := self._identify(sender, payload)) is None:
            return
        agent, sealed = found
        other = agent.session.connection
        if other is sender or sender.superseded:
            other = None
        if other is not None and not (other.held or self._may_overtake(agent)):
            self._refuse(sender, f"agent {agent.id} is connected from {other.source}")
            return
        if (opened := self._open(sender, agent, sealed)) is None:
            return
        if other is not None:
            # Messages that wait in a held connection are older than this payload: their events still count.
            other.supersede() if other.held else other.close()
        self._accept(sender, agent, opened, len(payload))

    def broken(self, sender: Sender, why: str) -> None:
        """Refuse a connection whose stream of frames is invalid."""
        self._refuse(sender, f"a frame is refused ({why})")

    def _identify(self, sender: Sender, payload: bytes) -> tuple[Agent, bytes] | None:
        """The agent that the payload names, by id or by address, and the sealed message; None when it is refused."""
        if payload[0] != _BANG:
            agent = self._agents.by_address.get(sender.source)
            if agent is None:
                self._refuse(sender, "no agent is registered with this address", ("ip", sender.source))
                return None
            return agent, payload
        end = payload.find(b"!", 1) + 1
        agent = self._agents.by_mark.get(payload[:end])
        if agent is None:
            self._refuse_mark(sender, payload[1 : end - 1], closed=end > 0)
            return None
        if sender.agent is not agent and not agent.identity.may_come_from(sender.source):
            self._refuse(sender, f"agent {agent.id} is not registered with this address", ("id", agent.id))
            return None
        return agent, payload[end:]

    def _open(self, sender: Sender, agent: Agent, sealed: bytes) -> Opened | None:
        """The message, when it is the agent's and its counter is accepted; None when it is refused."""
        try:
            opened = agent.identity.cipher.open(sealed)
        except MessageError as error:
            self._refuse_message(sender, agent, error.reason)
            return None
        if self._verification is not None and (why := self._verification.refusal(agent, opened.counter)):
            self._refuse_message(sender, agent, why)
            return None
        return opened

    def _accept(self, sender: Sender, agent: Agent, opened: Opened, size: int) -> None:
        session, text, counter = agent.session, opened.text, opened.counter
        if sender.agent is not agent:
            if counter <= session.highest_counter and sender.stream:  # datagrams may overtake each other
                self._went_back(sender, agent, counter)
            sender.authenticated(agent)
        if counter > session.highest_counter:
            session.highest_counter = counter
        session.last_valid = self._clock.monotonic()
        session.reply_cipher = opened.cipher
        self._counts.bytes_received += size
        counts = session.counts
        if counts is None:
            counts = session.counts = MessageCounts(int(self._clock.now().timestamp()))
        if not text.startswith(_MARK):
            self._take_event(sender, agent, counts, text)
        elif sender.superseded:
            self._counts.dequeued_after += 1
        else:
            self._control.handle(agent, counts, sender, text[len(_MARK) :])

    def _take_event(self, sender: Sender, agent: Agent, counts: MessageCounts, text: bytes) -> None:
        end = text.find(0)
        if end >= 0:
            text = text[:end]
        if len(text) < 3 or text[1] != 58:  # ":"
            self._warnings.warn("Events without a queue", "Agent %s sent an event without a queue", agent.id)
            return
        if text.startswith(b"keepalive", 2):
            return
        line = b"%b%b%b" % (text[:2], agent.identity.event_prefix, text[2:])
        if self._events.half_full and not sender.accepts_event(agent, len(line)):
            self._counts.discarded += 1
            self._losses.add(agent.id)
            return
        self._events.add(line)
        self._counts.event += 1
        counts.event += 1
        if text.startswith(_REPORT):
            if self._hooks.report is not None:
                self._hooks.report(agent.number, text[len(_REPORT) :])
        elif self._hooks.inventory is not None and text.startswith(_INVENTORY):
            self._hooks.inventory(agent, text)

    def _went_back(self, sender: Sender, agent: Agent, counter: Counter) -> None:
        """A connection begins with a counter that the agent has used: agents keep theirs over restarts.

        An agent restored from a backup does so too, so the connection is not refused; see ``remoted.verify_msg_id``.
        """
        self._counts.counters_back += 1
        self._warnings.warn(
            "Message counters that went back",
            "%s: the message counter of agent %s went back from %d:%d to %d:%d: the agent was restored from a backup or"
            " installed again with its key, or its messages are replayed by someone else",
            sender.source, agent.id, *agent.session.highest_counter, *counter,
        )  # fmt: skip

    def _may_overtake(self, agent: Agent) -> bool:
        return 0 < self._overtake < self._clock.monotonic() - agent.session.last_valid

    def _refuse_mark(self, sender: Sender, mark: bytes, *, closed: bool) -> None:
        if closed and mark.isdigit():
            name = mark[:16].decode("ascii")
            self._refuse(sender, f"agent {name} is not known", ("id", name))
        else:
            self._refuse(sender, "a message is refused (format)")

    def _refuse_message(self, sender: Sender, agent: Agent, reason: str) -> None:
        missing = ("id", agent.id) if reason == "auth" else None
        self._refuse(sender, f"a message in the name of agent {agent.id} is refused ({reason})", missing)

    def _refuse(self, sender: Sender, why: str, missing: tuple[str, str] | None = None) -> None:
        """``missing``: the key that is missing or likely wrong, as for :data:`MissingKeyHook`."""
        self._counts.unknown += 1
        self._warnings.warn("Refused messages", "%s: %s", sender.source, why)
        if missing and self._hooks.missing_key is not None:
            self._hooks.missing_key(*missing)
        sender.close()
