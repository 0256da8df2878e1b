"""Agents on one node: how many it holds, how fast they enrol, how many events it takes, how fast files reach them."""

import asyncio
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import psutil

from bench.agents import Agents
from bench.harness import Figure
from bench.nodes import Bench, say
from secmon.agents.link.client import LinkClient
from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import AgentCipher, Cipher
from secmon.agents.wire.keys import AgentKey, agent_id
from secmon.common.clock import SystemClock
from secmon.simulator import PROFILES, Server
from secmon.simulator.dialect import Dialect
from secmon.simulator.events import Events
from secmon.simulator.profiles import keepalive
from tests.integration.kit import RealNode
from tests.simulator.background import server_of
from tests.waiting import wait_until

HELD, SENDING = 10_000, 1_000
ENROLLED_AT_ONCE = 16
NOTIFY_SECONDS = 10.0
EVENTS = 200_000.0
"""Events a second of all agents together; more than the node accepts."""
SEALED_ONCE = 20
SEND_BUFFER = 32_768
WINDOW_SECONDS = 60.0
EVENT_SECONDS = 2.0
SETTLE_SECONDS = 20.0
_DAEMON, _ENROLMENT = "secmon-remoted", "secmon-authd"
_CHANGE_SECONDS = 900.0


def measure(bench: Bench) -> list[Figure]:
    """All figures on one master without workers, in an order in which they use the same agents."""
    node = bench.cluster(0).master
    held, sending = (500, 100) if bench.quick else (HELD, SENDING)
    window = 10.0 if bench.quick else WINDOW_SECONDS
    with tempfile.TemporaryDirectory() as folder, Agents([server_of(node)], Path(folder)) as agents:
        empty = _memory(node)
        figures = _enrol(node, agents, held)
        figures += _hold(node, agents, held, window, empty)
        figures.append(_change_group(node, agents, held))
        agents.stop()
        figures += _events(bench, node, agents, sending)
    return figures


# Enrolment


def _enrol(node: RealNode, agents: Agents, count: int) -> list[Figure]:
    say(f"enrolling {count} agents")
    options = {"timing": _timing(after_enrolment=3600.0), "enrolling": ENROLLED_AT_ONCE, "reenrol": False}
    before = _cpu(node, _ENROLMENT)
    agents.start(count, **options)
    taken = agents.wait("enrolled", count)
    used = _cpu(node, _ENROLMENT) - before
    agents.stop()
    with (
        _bare_enrolment(node) as server,
        tempfile.TemporaryDirectory() as folder,
        Agents([server], Path(folder)) as bare,
    ):
        bare.start(count // 5, **options)
        floor = count // 5 / bare.wait("enrolled", count // 5)
        bare.stop()
    say(f"authd used {used / count * 1000:.2f} ms of processor time for each")
    return [
        Figure(name=f"enrolments, {ENROLLED_AT_ONCE} at a time", value=count / taken, unit="/s", samples=count,
               floor=floor, floor_is="TLS and a fixed answer"),
    ]  # fmt: skip


@contextmanager
def _bare_enrolment(node: RealNode) -> Iterator[Server]:
    """A server with the node's certificate that only answers every request with a key."""
    command = [sys.executable, "-m", "bench.bare_enrolment", str(node.paths.etc)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Server("127.0.0.1", 1, port)
        finally:
            process.terminate()


# Holding


def _hold(node: RealNode, agents: Agents, count: int, window: float, empty: float) -> list[Figure]:
    say(f"waiting until {count} agents are connected")
    agents.start(count, timing=_timing(), reenrol=False)
    agents.wait("connected", count)
    time.sleep(SETTLE_SECONDS if window == WINDOW_SECONDS else 2)
    used, keepalives, losses = _cpu(node, _DAEMON), agents.counters()["keepalives"], agents.counters()["losses"]
    start = time.perf_counter()
    time.sleep(window)
    elapsed = time.perf_counter() - start
    used, after = _cpu(node, _DAEMON) - used, agents.counters()
    if after["losses"] != losses or after["connected"] != count:
        raise RuntimeError(f"agents were lost: {after}")
    rate = (after["keepalives"] - keepalives) / elapsed
    floor = rate * _crypto_of_a_keepalive()
    thousands = count / 1000
    return [
        Figure(name=f"{count} agents held: processor per 1,000", value=used / elapsed * 100 / thousands,
               unit="% core", floor=floor * 100 / thousands, floor_is="cryptography of the keepalives"),
        Figure(name="  memory per 1,000", value=(_memory(node) - empty) / thousands, unit="MB"),
    ]  # fmt: skip


def _crypto_of_a_keepalive() -> float:
    """Seconds to open a keepalive and to seal its acknowledgement."""
    profile, dialect, random = PROFILES["ubuntu-22.04"], Dialect.of("v4.8.2"), Random(1)
    text = keepalive(
        profile.system("agent-00001", dialect),
        dialect,
        config_sum="0" * 32,
        labels="",
        merged_sum="0" * 32,
        address="192.0.2.1",
        random=random,
    ).encode()
    ciphers = [AgentCipher(_key(number)) for number in range(500)]
    sealed = [cipher.seal(text, Cipher.AES, Counter(1, 1)) for cipher in ciphers]
    return _shortest(lambda: [cipher.open(one) for cipher, one in zip(ciphers, sealed, strict=True)]) / 500 + (
        _shortest(lambda: [cipher.seal(b"#!-agent ack ", Cipher.AES, Counter(1, 1)) for cipher in ciphers]) / 500
    )


# A change of a group's files


def _change_group(node: RealNode, agents: Agents, count: int) -> Figure:
    say(f"changing a file of the group of {count} agents")
    group = node.paths.shared / "default"
    merged = group / "merged.mg"
    wait_until(merged.exists, seconds=60, what="the group's merged file")
    agents.wait_for_sum(_sum(merged), count, seconds=_CHANGE_SECONDS)
    old = _sum(merged)
    start = time.perf_counter()
    (group / "bench.conf").write_bytes(b"# a change\n" * 300)
    wait_until(lambda: _sum(merged) != old, seconds=60, what="the new merged file")
    agents.wait_for_sum(_sum(merged), count, seconds=_CHANGE_SECONDS)
    taken = time.perf_counter() - start
    pieces = [b"x" * 900] * (merged.stat().st_size // 900 + 1) + [b"#!-up file " + b"0" * 45, b"#!-close file "]
    cipher = AgentCipher(_key(1))
    floor = _shortest(lambda: [cipher.seal(one, Cipher.AES, Counter(1, 1)) for one in pieces]) * count
    return Figure(name=f"group file changed until {count} agents report it", value=taken, unit="s",
                  floor=floor, floor_is="sealing it for each")  # fmt: skip


def _sum(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


# Events


def _events(bench: Bench, node: RealNode, agents: Agents, count: int) -> list[Figure]:
    """Short windows: once the journal is full the link is as fast as the analysis, which another figure measures."""
    say(f"{count} agents send events")
    agents.start(
        count,
        timing=_timing(),
        send_buffer=SEND_BUFFER,
        sealed_once=SEALED_ONCE,
        reenrol=False,
        content=["logs"],
    )
    agents.wait("connected", count)
    agents.set_rate(EVENTS / count)
    time.sleep(1)
    rates, costs = [], []
    sender = agents.cpu()
    begin = time.perf_counter()
    for _ in range(4):
        used, before, start = _cpu(node, _DAEMON), _taken(node), time.perf_counter()
        time.sleep(EVENT_SECONDS)
        taken = _taken(node) - before
        rates.append(taken / (time.perf_counter() - start))
        costs.append((_cpu(node, _DAEMON) - used) / taken * 1e6)
    load = (agents.cpu() - sender) / (time.perf_counter() - begin)
    agents.stop()
    floor = _crypto_of_events()
    bench.notes.append(f"fleet: the sender of the events used {load * 100:.0f} % of a core meanwhile")
    return [
        Figure(name=f"events from {count} agents", value=statistics.median(rates), unit="/s", samples=len(rates),
               spread=(min(rates), max(rates)), floor=1 / floor, floor_is="cryptography alone, one core"),
        Figure(name="  processor time of an event", value=statistics.median(costs), unit="us", samples=len(costs),
               floor=floor * 1e6, floor_is="cryptography alone"),
    ]  # fmt: skip


def _taken(node: RealNode) -> int:
    """Events that the link has accepted so far."""
    found: dict[str, Any] = dict(asyncio.run(LinkClient(node.paths.agent_link_socket).statistics()))
    return int(found["metrics"]["messages"]["received_breakdown"]["event"])


def _crypto_of_events() -> float:
    """Seconds to open one event, over many agents and many events."""
    clock = SystemClock()
    work: list[tuple[AgentCipher, bytes]] = []
    dialect = Dialect.of("v4.8.2")
    for number in range(200):
        cipher = AgentCipher(_key(number))
        profile = list(PROFILES.values())[number % len(PROFILES)]
        events = Events(f"agent-{number:05d}", profile, dialect, ["logs"], random=Random(number), now=clock.now)
        work += [(cipher, cipher.seal(events.next(), Cipher.AES, Counter(1, 1))) for _ in range(SEALED_ONCE)]
    Random(1).shuffle(work)
    return _shortest(lambda: [cipher.open(sealed) for cipher, sealed in work]) / len(work)


# Tools


def _key(number: int) -> AgentKey:
    return AgentKey(agent_id(number), f"agent-{number:05d}", "any", f"{number:064x}")


def _timing(**more: float) -> dict[str, float]:
    return {"notify": NOTIFY_SECONDS, "silence": 120.0, "ack_wait": 120.0, "retry": 2.0, "max_retries": 100, **more}


def _shortest(work: Any) -> float:
    """Seconds of the fastest of several runs."""
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _process(node: RealNode, daemon: str) -> psutil.Process:
    pid = node.pid(daemon)
    if pid is None:
        raise RuntimeError(f"{daemon} does not run")
    return psutil.Process(pid)


def _cpu(node: RealNode, daemon: str) -> float:
    return float(sum(_process(node, daemon).cpu_times()[:2]))


def _memory(node: RealNode) -> float:
    """Memory of the link in megabytes."""
    return float(_process(node, _DAEMON).memory_info().rss) / 1e6
