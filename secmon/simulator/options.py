"""Options of a fleet: servers, timing, content, misbehaviour."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Literal

Transport = Literal["tcp", "udp"]

AGENT_PORT = 1514
ENROLMENT_PORT = 1515
_SERVER = re.compile(
    r"(?:(?P<transport>tcp|udp)://)?(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>\d{1,5})(?::(?P<enrol>\d{1,5}))?)?"
)


@dataclass(frozen=True)
class Server:
    """A node that agents connect to; by default it enrols them on the next port."""

    host: str
    port: int = AGENT_PORT
    enrolment_port: int = ENROLMENT_PORT
    transport: Transport = "tcp"

    @classmethod
    def parse(cls, text: str) -> "Server":
        """``[tcp://|udp://]HOST[:PORT[:ENROLMENT_PORT]]``, an IPv6 address in brackets. Raises ValueError."""
        match = _SERVER.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a server: write HOST, HOST:PORT or HOST:PORT:ENROLMENT_PORT")
        port, enrolment = int(match["port"] or AGENT_PORT), int(match["enrol"] or ENROLMENT_PORT)
        if not (0 < port < 65536 and 0 < enrolment < 65536):
            raise ValueError(f"{text!r}: ports are 1 to 65535")
        return cls(match["host"].strip("[]"), port, enrolment, "udp" if match["transport"] == "udp" else "tcp")

    def __str__(self) -> str:
        return f"{self.transport}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds; the defaults are those of agents in the field (agent-link.md 1.11, 6.8, 6.10, 8.1, 10.6)."""

    notify: float = 10.0
    """Between keepalives."""
    silence: float = 60.0
    """Without any control message of the server the agent connects again; at least three keepalives."""
    ack_wait: float = 60.0
    connect_wait: float = 10.0
    retry: float = 10.0
    """Between two attempts at a server."""
    max_retries: int = 5
    """Attempts at one server before the next one."""
    after_enrolment: float = 20.0
    enrolment_retry: float = 5.0
    """Grows by itself with each refusal, to twelve times its value."""
    restart: float = 2.0
    """Between the shutdown and the next startup of a restart."""
    request_repeat: float = 1.0
    """UDP: until an answer that was not acknowledged is sent again."""
    install: float = 3.0
    """Of a package."""
    report: float = 30.0
    """From the start until the result of an upgrade is reported."""
    report_again: float = 300.0
    """Until the first repetition; doubles, to twelve times its value."""
    first_scan: float = 5.0
    """From a connection until the scans of the host."""
    scan: float = 3600.0
    """Between two scans of the host, each followed by a synchronization."""
    max_lock: float = 600.0
    """Longest time for which ``lock_restart`` postpones automatic restarts."""

    def scaled(self, factor: float) -> "Timing":
        """The same with every duration multiplied by ``factor``."""
        return replace(
            self, **{each.name: getattr(self, each.name) * factor for each in fields(self) if each.type is float}
        )

    @property
    def patience(self) -> float:
        """Seconds of silence that end a connection (``time-reconnect``, agent-link.md 6.8)."""
        return self.silence if self.silence > self.notify else 3 * self.notify


class Misbehaviour(Enum):
    """The kinds of misbehaviour; the value is the name on the command line."""

    FLOOD = "flood"
    """Sends events as fast as the connection takes them."""
    DEAF = "deaf"
    """Never reads, but goes on sending."""
    HALF = "half"
    """Stops in the middle of a frame, waits, closes."""
    WRONG_KEY = "wrong-key"
    """Encrypts with a key that the server does not know."""
    REPLAY = "replay"
    """Sends earlier messages again, unchanged."""
    RANDOM = "random"
    """Sends frames of random bytes, and random bytes without frame."""
    MUTE = "mute"
    """Never answers requests."""
    CORRUPT = "corrupt"
    """Damages received group files, so that their sum is always wrong."""
    CLOCK = "clock"
    """Its clock jumps by hours; keepalives come in bursts."""
    TWICE = "twice"
    """Connects a second time while the first connection is open."""
    LOSSY = "lossy"
    """Loses a fifth of the messages about its host."""
    SHUFFLE = "shuffle"
    """Sends messages about its host twice, and in another order."""
    RESTORED = "restored"
    """Its host is restored from a backup before each scan."""
    WRONG_SUMS = "wrong-sums"
    """Sends wrong checksums of ranges."""
    BAD_UPGRADE = "bad-upgrade"
    """Accepts packages and reports that their installation failed."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a fleet. ``events_per_second`` is that of one agent."""

    timing: Timing = field(default_factory=Timing)
    seed: int = 0
    versions: tuple[str, ...] = ("v4.8.2",)
    """``vX.Y.Z``; the agents take them in turn."""
    cipher: Literal["auto", "aes", "blowfish"] = "auto"
    groups: tuple[str, ...] = ()
    """Requested at enrolment."""
    password: str = ""
    address: str = ""
    """Sent at enrolment as the address to register: an address, a network, ``any`` or ``src``; empty: none sent."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Keys with a leading ``!`` are hidden (agent-link.md 6.3)."""
    source: str = ""
    """Local address of the connections."""
    send_buffer: int = 0
    """Bytes that a connection may hold unsent, in the kernel and here; 0: what the host allows. Small ones keep
    keepalives from waiting behind events that a busy server has not read."""
    reenrol: bool = True
    """Enrol again, with the hash of the key, at a server that refuses the connection."""
    connecting: int = 200
    """Connections under way at a time."""
    enrolling: int = 8
    """Enrolments under way at a time."""
    events_per_second: float = 0.0
    content: tuple[str, ...] = ("logs",)
    """Kinds of events, of ``secmon.simulator.events.KINDS``."""
    scans: tuple[str, ...] = ()
    """What agents report of their hosts, of ``secmon.simulator.host.host_reports.SCANS``."""
    host_rows: int = 20
    """Packages, and watched files, of a host."""
    host_changes: int = 1
    """Changes of files, and of the inventory, from one scan to the next."""
    reports_per_second: int = 20
    """Messages of one agent about its host; agents in the field send 10."""
    sealed_once: int = 0
    """Above 0: encrypt that many events of each agent once and send them repeatedly. It saves processor time of the
    sender; the server must not verify counters."""
    restarts: bool = True
    """Restart after each group file (``auto_restart``)."""
    unpack: Path | None = None
    """Folder to write group files into, one folder for each agent; in memory only otherwise."""
    shutdown: bool = True
    """Send the shutdown message at the end."""
    misbehave: Mapping[Misbehaviour, int] = field(default_factory=dict)
    """Number of agents of each kind; the last agents of the fleet misbehave."""
