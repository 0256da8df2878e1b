"""One agent: key, connection, timers (agent-link.md 1.11, 6.10)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from random import Random

from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.keys import AgentKey, enrolment_hash
from secmon.common.errors import os_text
from secmon.simulator.activity import Activity
from secmon.simulator.answers import RequestHandler
from secmon.simulator.control_messages import ControlMessages
from secmon.simulator.dialect import Dialect
from secmon.simulator.enrolment import EnrolmentRefused, Request, enrol
from secmon.simulator.fleet_state import FleetState
from secmon.simulator.group_file import GroupFile
from secmon.simulator.host.host_reports import HostReports
from secmon.simulator.key_folder import SavedState
from secmon.simulator.misbehaviour import Behaviour
from secmon.simulator.options import Timing
from secmon.simulator.profiles import Profile
from secmon.simulator.second_connection import SecondConnection
from secmon.simulator.sender import MessageSender
from secmon.simulator.server_choice import NextStep, ServerChoice
from secmon.simulator.timer_wheel import Timers
from secmon.simulator.transport import Link, open_link
from secmon.simulator.upgrading import Upgrading

_BATCH = 0.1  # seconds between two batches of events
_GROWTH = 12  # how far the pause between two enrolments grows


class State(Enum):
    """Progress of an agent towards its connection."""

    STOPPED = "stopped"
    ENROLLING = "enrolling"
    OFFLINE = "offline"
    CONNECTING = "connecting"
    WAITING = "waiting"  # for the acknowledgement of its startup
    CONNECTED = "connected"


class Agent:
    """A host that runs an agent. All methods are called on the event loop of the fleet."""

    def __init__(
        self,
        fleet: FleetState,
        name: str,
        *,
        profile: Profile,
        dialect: Dialect,
        behaviour: Behaviour,
        server_choice: ServerChoice,
        key: AgentKey | None = None,
        saved_state: SavedState | None = None,
    ) -> None:
        """``saved_state`` is from an earlier run; its version overrides ``dialect``."""
        saved_state = saved_state or SavedState()
        self.fleet, self.name = fleet, name
        self.profile, self.behaviour, self.server_choice = profile, behaviour, server_choice
        self.dialect = Dialect.of(saved_state.version) if saved_state.version else dialect
        self.merged_sum, self.config_sum = saved_state.merged_sum, saved_state.config_sum
        self.file: GroupFile | None = None
        self.key = key
        self.state = State.STOPPED
        self.link: Link | None = None
        self.offset = timedelta()
        self.activity = Activity()
        self._upgrading = Upgrading(self)
        self.packages = self._upgrading.packages
        self.request_handler = RequestHandler(self)
        self._sender: MessageSender | None = None
        self.host = HostReports(self)
        self._control = ControlMessages(self)
        self._timers = Timers(fleet.wheel)
        self._fresh = True  # the process has just started
        self._locked_until = 0.0
        self._enrolment_pause = 0.0
        self._heard = 0.0  # loop time of the server's last message
        self._reported: str | None = None  # the sum in the last keepalive of this connection
        self._owed = 0.0  # events due, with fractions
        self._owed_at = 0.0  # loop time of that count
        fleet.counters.keyed += key is not None

    @property
    def id(self) -> str:
        """Empty before the enrolment."""
        return self.key.id if self.key else ""

    @property
    def connected(self) -> bool:
        return self.state is State.CONNECTED

    @property
    def timing(self) -> Timing:
        return self.fleet.options.timing

    @property
    def random(self) -> Random:
        return self.fleet.random

    @property
    def datagrams(self) -> bool:
        return self.server_choice.server.transport == "udp"

    @property
    def saved_state(self) -> SavedState:
        """The state that a later run starts with."""
        return SavedState(self.dialect.version, self.merged_sum, self.config_sum)

    @property
    def sender(self) -> MessageSender:
        """Exists as soon as the agent has a key."""
        if self._sender is None:
            assert self.key is not None
            self._sender = MessageSender(self.fleet, self.key, self.profile, self.dialect, self.behaviour, now=self.now)
        return self._sender

    def now(self) -> datetime:
        """Time of the host's clock, which may be wrong."""
        return self.fleet.clock.now() + self.offset

    # Life

    def start(self) -> None:
        """Enrol if there is no key, then connect."""
        if self.key is None:
            self._enrol()
        else:
            self._connect()

    def stop(self, *, send_shutdown: bool) -> None:
        """Stop; ``send_shutdown``: announce it, as an agent does whose host shuts down."""
        self._drop(send_shutdown=send_shutdown)
        self._upgrading.stop()
        self.state = State.STOPPED

    def restart(self) -> None:
        """Simulate a restart of the agent's process."""
        if self.state is State.STOPPED:
            return
        self.fleet.counters.restarts += 1
        self._drop(send_shutdown=True)
        self._upgrading.restart()
        self.host.restarted()
        self.activity = Activity()
        self._fresh = True
        self._timers.set("connect", self.timing.restart, self._connect)

    def reconnect(self) -> None:
        """Close the connection and open another one."""
        self._drop()
        self._connect()

    # Enrolment

    def _enrol(self) -> None:
        self.state = State.ENROLLING
        self.fleet.enrolling.submit(self._ask_for_key)

    async def _ask_for_key(self) -> None:
        if self.state is not State.ENROLLING:
            return
        options, counters = self.fleet.options, self.fleet.counters
        request = Request(
            name=self.name,
            password=options.password,
            version=self.dialect.version if self.dialect.startup_version else "",
            groups=",".join(options.groups),
            address=options.address,
            key_hash=enrolment_hash(self.key) if self.key and self.dialect.key_hash else "",
        )
        key = None
        try:
            key = await enrol(self.server_choice.server, request, self.fleet.tls, source=options.source)
        except EnrolmentRefused as error:
            counters.enrolments_refused += 1
            self.fleet.refusals[str(error)] += 1
        except OSError as error:  # TimeoutError too
            counters.enrolments_failed += 1
            self._count_failure(error)
        self._enrolled(key)

    def _enrolled(self, key: AgentKey | None) -> None:
        if key is not None:
            self.fleet.counters.enrolled += 1
            self.fleet.counters.keyed += self.key is None
            self.key, self._sender, self._enrolment_pause = key, None, 0.0
        if self.state is not State.ENROLLING:
            return  # stopped meanwhile: the key is kept
        if key is not None:
            self.state = State.OFFLINE
            self._timers.set("connect", self.timing.after_enrolment, self._connect)
        elif self.key is not None:
            self._connect()  # servers refuse known agents: one more attempt to connect
        else:
            step = self.timing.enrolment_retry
            self._enrolment_pause = min(self._enrolment_pause + step, _GROWTH * step)
            self.server_choice.give_up()
            self._timers.set("connect", self._enrolment_pause, self._enrol)

    # Connection

    def _connect(self) -> None:
        self.state = State.CONNECTING
        self.fleet.connecting.submit(self._open)

    async def _open(self) -> None:
        if self.state is not State.CONNECTING:
            return
        self.fleet.counters.connects += 1
        try:
            await open_link(self.server_choice.server, self, self.fleet.options)
        except OSError as error:  # TimeoutError too
            if self.state is State.CONNECTING:
                self._count_failure(error)
                self._failed()

    def _count_failure(self, error: OSError) -> None:
        self.fleet.failures[f"{self.server_choice.server.host}: {os_text(error) or 'no answer in time'}"] += 1

    def _failed(self) -> None:
        """The server cannot be reached, or does not acknowledge the startup."""
        self.fleet.counters.connects_failed += 1
        self._drop()
        self._follow(self.server_choice.failed())

    def _follow(self, step: NextStep) -> None:
        self.fleet.counters.failovers += step.other
        if step.enrol:
            self._enrol()
        elif step.wait:
            self._timers.set("connect", self.timing.retry * self.random.uniform(0.8, 1.2), self._connect)
        else:
            self._connect()

    def link_made(self, link: Link) -> None:
        if self.state is not State.CONNECTING:
            link.abort()
            return
        self.link, self.state = link, State.WAITING
        self._timers.set("ack", self.timing.ack_wait, self._failed)
        self.sender.startup(link)

    def link_received(self, link: Link, payload: bytes) -> None:
        counters = self.fleet.counters
        counters.messages_in += 1
        counters.bytes_in += len(payload)
        if link is not self.link:
            return  # a connection that this agent has closed
        try:
            text = self.sender.open(payload)
        except MessageError:
            counters.undecryptable += 1
            return
        self._heard = self.fleet.loop.time()
        self._control.take(text)

    def link_lost(self, link: Link) -> None:
        """A connection has ended; if it is the current one, the server or the network has ended it."""
        self.fleet.closing.discard(link)
        if link is not self.link:
            return
        if self.connected:
            self._lost()
        else:
            self._failed()

    def _lost(self) -> None:
        """An established connection is lost: the same server is tried first."""
        self.fleet.counters.losses += 1
        self.reconnect()

    def _drop(self, *, send_shutdown: bool = False) -> None:
        """Close the connection and drop its state."""
        link, self.link = self.link, None
        if link is not None:
            if self.connected:
                self.fleet.counters.connected -= 1
                if send_shutdown:
                    self.sender.shutdown(link)
            self.fleet.closing.add(link)
            link.close()
        self.state = State.OFFLINE
        self._count_sum(None)
        self._control.forget()
        self.host.lost()
        self._timers.cancel_all()

    # While connected

    def acknowledged(self) -> None:
        """The server answered a startup or a keepalive."""
        self.fleet.counters.acked += 1
        self.activity.ack = self.now()
        if self.state is not State.WAITING:
            return
        self.state = State.CONNECTED
        self.fleet.counters.connected += 1
        self.server_choice.succeeded()
        self._timers.cancel("ack")
        self.send_keepalive()
        self._timers.set("keepalive", self.timing.notify * self.random.uniform(0.5, 1.0), self._keepalive_due)
        if self._fresh:
            self._started()
        self.begin_events()
        self.host.connected()
        self.behaviour.connected(self)

    def _started(self) -> None:
        """First connection of the process."""
        self._fresh = False
        assert self.link is not None
        self.notice(f"ossec: Agent started: '{self.name}->{self.link.local_address}'.")
        self._upgrading.started()

    def refused(self) -> None:
        """The server refused the startup."""
        if self.state is State.WAITING:
            self._failed()

    def _keepalive_due(self) -> None:
        if self.fleet.loop.time() - self._heard > self.timing.patience:
            self._lost()
            return
        self._timers.set("keepalive", self.timing.notify, self._keepalive_due)
        self.send_keepalive()

    def begin_events(self) -> None:
        """Start to send events at the rate of the options."""
        if self.fleet.options.events_per_second > 0 and self.connected:
            self._owed_at = self.fleet.loop.time()
            self._timers.set("events", self._interval() * self.random.random(), self._events_due)

    def _interval(self) -> float:
        return max(1 / self.fleet.options.events_per_second, _BATCH)

    def _events_due(self) -> None:
        if not self.fleet.options.events_per_second:
            return
        self._timers.set("events", self._interval(), self._events_due)
        now = self.fleet.loop.time()
        self._owed += (now - self._owed_at) * self.fleet.options.events_per_second
        self._owed_at = now
        count = int(self._owed)
        self._owed -= count
        for number in range(count):
            if self.link is None or self.link.full:
                self.fleet.counters.held += count - number
                self.activity.dropped += count - number
                return
            self.send_event()

    def send(self, text: bytes) -> None:
        """Seal and send one text; nothing without a connection."""
        if self.link is not None:
            self.sender.send(self.link, text)

    def report(self, text: bytes) -> bool:
        """Send a message about the host; False when the connection takes no more now."""
        if self.link is None or self.link.full:
            return False
        self.sender.send(self.link, text)
        self.fleet.counters.host_reports += 1
        return True

    def notice(self, text: str) -> None:
        """Send an event about the agent itself."""
        if self.link is not None:
            self.sender.notice(self.link, text)

    def send_event(self) -> None:
        if self.link is not None:
            self.sender.event(self.link)
            self.activity.sent += 1

    def send_keepalive(self) -> None:
        if self.link is not None:
            self.sender.keepalive(self.link, config_sum=self.config_sum, merged_sum=self.merged_sum)
            self.activity.keepalive = self.now()
            self._count_sum(self.merged_sum or "x")

    def _count_sum(self, merged_sum: str | None) -> None:
        if self._reported == merged_sum:
            return
        sums = self.fleet.sums
        if self._reported is not None:
            sums[self._reported] -= 1
        if merged_sum is not None:
            sums[merged_sum] += 1
        self._reported = merged_sum

    # Messages of the server

    def take(self, file: GroupFile) -> None:
        """Store a complete group file."""
        self.file, self.merged_sum, self.config_sum = file, file.sum, file.config_sum
        folder = self.fleet.options.unpack
        if folder is not None:
            target = folder / self.id / "shared"
            self.fleet.in_thread(lambda: file.write(target))
        if self.fleet.options.restarts:
            locked = max(0.0, self._locked_until - self.fleet.loop.time())
            self._timers.set("restart", locked, self.restart)

    def lock(self, seconds: float) -> None:
        """Postpone automatic restarts; -1: for the longest time."""
        limit = self.timing.max_lock
        self._locked_until = self.fleet.loop.time() + (limit if seconds < 0 else min(seconds, limit))

    def unlock(self) -> None:
        """Allow automatic restarts again."""
        self._locked_until = 0.0

    def become(self, dialect: Dialect) -> None:
        """Change the agent's version."""
        self.dialect, self._sender = dialect, None

    # Misbehaviour

    def later(self, name: str, delay: float, callback: Callable[[], None]) -> None:
        """Call back in ``delay`` seconds unless the connection has ended, or ``name`` is set again."""
        self._timers.set(name, delay, callback)

    def fall_silent(self) -> None:
        """Send no more keepalives and events on this connection."""
        self._timers.cancel("keepalive", "events")

    def open_second(self) -> None:
        """Open a second connection and send the startup on it."""
        second = SecondConnection(self.fleet, self.server_choice.server, self.sender.startup)
        self.fleet.connecting.submit(second.open)
