"""Control messages of agents (agent-link.md 6): their effects and replies."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.counters import LinkCounts, MessageCounts
from secmon.agentlink.outgoing import Outgoing
from secmon.agentlink.reply_path import ReplyPath
from secmon.agentlink.shared import SharedFiles
from secmon.agentlink.state_queue import StateQueue
from secmon.agents.state_updates import ChangedKeepalive, Refusal, Shutdown, Startup, UnchangedKeepalive
from secmon.agents.wire import keepalive
from secmon.agents.wire.address import bare
from secmon.agents.wire.location import source
from secmon.agents.wire.version import too_new
from secmon.common.clock import Clock
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.journal.batch_writer import BatchWriter

DAEMON = "secmon-remoted"
ACK = b"#!-agent ack "
_STARTUP = "agent startup "
_SHUTDOWN = "agent shutdown "
_REQUEST = b"req "
_HIGHER = "Agent version must be lower or equal to manager version"
_NO_VERSION = "Couldn't retrieve version"
_json = msgspec.json.Decoder(dict[str, Any])


class Identity(msgspec.Struct, frozen=True):
    """Names of this node for agents' labels and states; ``node`` is empty for a node without a name."""

    host: str
    node: str


class Control:
    """Handles the texts after ``#!-``. Replies are sent before anything else is done."""

    def __init__(
        self,
        clock: Clock,
        counts: LinkCounts,
        outgoing: Outgoing,
        states: StateQueue,
        events: BatchWriter,
        warnings: WarningLimiter,
        shared: SharedFiles,
        answered: Callable[[Agent, ReplyPath, bytes], None],
        identity: Identity,
        *,
        highest_version: str | None,
    ) -> None:
        """``answered`` gets the text after ``req``; ``highest_version``: of agents that may connect; None: any."""
        self._clock = clock
        self._counts = counts
        self._outgoing = outgoing
        self._states = states
        self._events = events
        self._warnings = warnings
        self._shared = shared
        self._answered = answered
        self._identity = identity
        self._highest_version = highest_version

    def handle(self, agent: Agent, counts: MessageCounts, path: ReplyPath, raw: bytes) -> None:
        """Handle one authentic control message that came over ``path``."""
        session = agent.session
        stops = raw.startswith(b"agent shutdown ") and raw.partition(b"\0")[0] == b"agent shutdown "
        if path.closed and not stops:
            self._counts.dequeued_after += 1
            return
        if session.reply_path is not None and session.reply_path.same(path):
            path = session.reply_path
        elif not (stops and path.stream):
            session.reply_path = path
        self._counts.control += 1
        counts.control += 1
        if raw.startswith(_REQUEST):
            self._counts.request += 1
            counts.request += 1
            self._answered(agent, path, raw[len(_REQUEST) :])
            return
        text = raw.partition(b"\0")[0].decode("utf-8", "replace")
        if text.startswith(_STARTUP):
            self._start(agent, counts, path, text)
        elif text == _SHUTDOWN:
            self._stop(agent, counts)
        elif "\n" in text:
            self._keepalive(agent, counts, path, keepalive.complete(text))
        else:
            self._warnings.warn("Unknown control messages", "Agent %s sent an unknown control message", agent.id)

    def _start(self, agent: Agent, counts: MessageCounts, path: ReplyPath, text: str) -> None:
        self._counts.startup += 1
        counts.startup += 1
        members = _members(text)
        version = members.get("version") if members is not None else None
        if members is not None and not isinstance(version, str):
            self._refuse(agent, path, _NO_VERSION, None)
        elif version is not None and too_new(version, self._highest_version):
            self._refuse(agent, path, _HIGHER, version)
        else:
            path.refused = False
            self._outgoing.reply(agent, ACK, "ack")
            session = agent.session
            session.version = version
            session.keepalive_hash = 0
            session.last_keepalive = self._now()
            self._states.add(Startup(agent.number, session.last_keepalive))

    def _refuse(self, agent: Agent, path: ReplyPath, why: str, version: str | None) -> None:
        path.refused = True
        self._outgoing.reply(agent, b'#!-err {"message":"%b"}' % why.encode(), "ack")
        self._warnings.warn("Refused startups", "Agent %s is refused: %s (%s)", agent.id, why, version)
        self._states.add(Refusal(agent.number, version))

    def _stop(self, agent: Agent, counts: MessageCounts) -> None:
        self._counts.shutdown += 1
        counts.shutdown += 1
        agent.session.version = None
        agent.session.keepalive_hash = agent.session.last_keepalive = 0
        self._states.add(Shutdown(agent.number, self._now()))
        key = agent.identity.key
        address = bare(key.address)
        line = f"1:{source(key.id, key.name, address)}{DAEMON}:ossec: Agent stopped: '{key.name}->{address}'."
        self._events.add(line.encode())

    def _keepalive(self, agent: Agent, counts: MessageCounts, path: ReplyPath, text: str) -> None:
        self._counts.keepalive += 1
        counts.keepalive += 1
        if path.refused:
            return
        self._outgoing.reply(agent, ACK, "ack")
        session, delivery = agent.session, agent.delivery
        session.last_keepalive = self._now()
        digest = hash(text)
        if digest == session.keepalive_hash:
            self._states.add(UnchangedKeepalive(agent.number, session.last_keepalive))
            self._shared.update_agent(agent)
            return
        parsed = keepalive.parse(text)
        session.keepalive_hash = digest
        delivery.merged_sum = parsed.merged_sum
        delivery.config_status = None
        self._shared.update_agent(agent)
        labels = _labels(parsed, self._identity)
        status = delivery.config_status
        self._states.add(ChangedKeepalive(agent.number, session.last_keepalive, parsed, status or "synced", labels))
        if delivery.group is None and parsed.merged_sum is not None:
            self._shared.assign(agent)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _members(startup: str) -> Mapping[str, Any] | None:
    """The JSON object of a startup; None if it is absent or invalid."""
    start = startup.find("{")
    if start < 0:
        return None
    try:
        return _json.decode(startup[start:])
    except msgspec.DecodeError:
        return None


def _labels(message: keepalive.Keepalive, identity: Identity) -> list[tuple[str, str]]:
    """Labels of the agent, then those of the node (agent-link.md 6.5 step 6)."""
    labels = [label for line in message.labels if (label := keepalive.split_label(line)) is not None]
    labels.append(("#_manager_hostname", identity.host))
    if message.agent_ip:
        labels.append(("#_agent_ip", message.agent_ip))
    if identity.node:
        labels.append(("#_node_name", identity.node))
    if message.version:
        labels.append(("#_wazuh_version", message.version))  # the name that existing rules know
    return labels
