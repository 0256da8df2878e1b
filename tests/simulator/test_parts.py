"""The fleet's parts by themselves: timers, routes, group files, options, sources of events."""

import asyncio
import json
import re
import time
from datetime import UTC, datetime
from hashlib import md5
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.wire.location import location_end
from secmon.simulator import PROFILES, Server, Timing
from secmon.simulator.concurrency import ConcurrencyLimit
from secmon.simulator.dialect import Dialect
from secmon.simulator.events import KINDS, Events
from secmon.simulator.group_file import GroupFileReceiver, KnownFiles, MalformedFile, unpack
from secmon.simulator.server_choice import ServerChoice
from secmon.simulator.timer_wheel import Timers, TimerWheel

BOUNDED = settings(max_examples=150)


@pytest.mark.anyio
async def test_thousands_of_timers_that_are_due_delay_no_signal() -> None:
    loop, failures = asyncio.get_running_loop(), list[object]()
    usual = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    wheel, done, signalled = TimerWheel(loop, tick=0.001), 0, asyncio.Event()

    def work() -> None:
        nonlocal done
        if done == 0:
            loop.call_later(0, signalled.set)
        done += 1
        time.sleep(0.001)
        if done == 5:
            raise RuntimeError("one agent")

    for _ in range(1000):
        wheel.later(0, work)
    await signalled.wait()
    assert 0 < done < 500
    wheel.close()
    before = done
    await asyncio.sleep(0.01)
    assert done == before
    loop.set_exception_handler(usual)
    assert [str(each) for each in failures] == ["one agent"]


@pytest.mark.anyio
async def test_timers_come_in_order_and_cancelled_ones_do_not() -> None:
    loop = asyncio.get_running_loop()
    wheel, seen = TimerWheel(loop, tick=0.001), []
    timers = Timers(wheel)
    done = asyncio.Event()
    wheel.later(0.03, lambda: seen.append("third"))
    wheel.later(0.01, lambda: seen.append("first"))
    wheel.later(0.02, lambda: seen.append("second"))
    timers.set("a", 0.005, lambda: seen.append("replaced"))
    timers.set("a", 0.04, done.set)
    timers.set("b", 0.001, lambda: seen.append("cancelled"))
    timers.cancel("b", "never set")
    others = Timers(wheel)
    others.set("a", 0.001, lambda: seen.append("cancelled too"))
    others.cancel_all()
    await done.wait()
    assert seen == ["first", "second", "third"]
    wheel.later(0, lambda: seen.append("never"))
    wheel.close()
    await asyncio.sleep(0.005)
    assert seen[-1] == "third"


@pytest.mark.anyio
async def test_concurrency_is_bounded() -> None:
    running, most, done = 0, 0, asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async def last() -> None:
        done.set()

    limit = ConcurrencyLimit(3)
    for _ in range(20):
        limit.submit(work)
    limit.submit(last)
    await done.wait()
    assert most == 3
    await limit.close()


def test_the_next_server_follows_retries_and_an_enrolment() -> None:
    servers = [Server("a"), Server("b")]
    server_choice = ServerChoice(servers, 0, max_retries=2, reenrol=True)
    assert server_choice.failed() == (True, False, False)
    assert server_choice.failed() == (False, True, False)
    assert server_choice.failed() == (False, False, True)
    assert server_choice.server.host == "b"
    server_choice.succeeded()
    steps = [server_choice.failed() for _ in range(6)]
    assert [step.enrol for step in steps] == [False, True, False, False, True, False]
    assert steps[5].wait
    assert server_choice.server.host == "b"


def test_a_single_server_is_tried_after_a_pause() -> None:
    server_choice = ServerChoice([Server("a")], 5, max_retries=1, reenrol=False)
    assert [server_choice.failed() for _ in range(3)] == [(True, False, False)] * 3


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("node1", Server("node1", 1514, 1515, "tcp")),
        ("node1:2000", Server("node1", 2000, 1515, "tcp")),
        ("udp://node1:2000:2001", Server("node1", 2000, 2001, "udp")),
        ("tcp://[2001:db8::1]:99", Server("2001:db8::1", 99, 1515, "tcp")),
    ],
)
def test_server_is_read(text: str, server: Server) -> None:
    assert Server.parse(text) == server


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:70000", "http://a", "::1", "a:1:2:3"])
def test_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Server.parse(text)


def test_timing_is_scaled_but_not_its_counts() -> None:
    scaled = Timing().scaled(0.1)
    assert (scaled.notify, scaled.max_retries) == (1.0, 5)
    assert scaled.patience == 6.0
    assert Timing(notify=90, silence=60).patience == 270


files = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=30).filter(
        lambda name: not name.startswith("/") and ".." not in name.split("/")
    ),
    st.binary(max_size=300),
    max_size=6,
)


@BOUNDED
@given(files, st.integers(1, 900), st.data())
def test_merged_files_are_unpacked(contents: dict[str, bytes], size: int, data: st.DataObject) -> None:
    merged = b"#tag\n" + b"".join(f"!{len(text)} {name}\n".encode() + text for name, text in contents.items())
    known = KnownFiles()
    receiver = GroupFileReceiver(md5(merged).hexdigest(), "merged.mg", known)
    for at in range(0, len(merged), size):
        receiver.piece(merged[at : at + size])
    file = receiver.close()
    assert file is not None
    assert file.files == contents
    again = GroupFileReceiver(file.sum, "merged.mg", known)
    again.piece(merged)
    assert again.close() is file
    at = data.draw(st.integers(0, len(merged) - 1))
    damaged = GroupFileReceiver(file.sum, "merged.mg", known)
    damaged.piece(merged[:at] + bytes([merged[at] ^ 1]) + merged[at + 1 :])
    assert damaged.close() is None


@BOUNDED
@given(st.binary(max_size=400))
def test_any_bytes_are_unpacked_or_refused(data: bytes) -> None:
    for text in (data, b"#x\n" + data, b"#x\n!5 a\n" + data):
        try:
            unpack(text)
        except MalformedFile:
            pass


@pytest.mark.parametrize("text", [b"", b"x", b"#a", b"#a\n!3 b\nxy", b"#a\n!1 ../b\nx", b"#a\n!1 /b\nx"])
def test_malformed_group_files(text: bytes) -> None:
    with pytest.raises(MalformedFile):
        unpack(text)


def source(kinds: tuple[str, ...], version: str = "v4.8.2", profile: str = "ubuntu-22.04", seed: int = 1) -> Events:
    now = datetime(2026, 3, 5, 10, 20, 30, tzinfo=UTC)
    dialect = Dialect.of(version)
    return Events("web-01", PROFILES[profile], dialect, kinds, random=Random(seed), now=lambda: now)


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_well_formed_and_the_same_for_a_seed(kind: str) -> None:
    first, second, other = (source((kind,), seed=seed) for seed in (1, 1, 2))
    events = [first.next() for _ in range(100)]
    assert events == [second.next() for _ in range(100)]
    assert events != [other.next() for _ in range(100)]
    for event in events:
        text = event.decode()
        assert text[1] == ":"
        body = text[location_end(text, 2) + 1 :]
        assert body
        if body.startswith("{"):
            json.loads(body)


def test_log_lines_look_like_those_of_hosts() -> None:
    events = source(("logs",))
    lines = [events.next().decode() for _ in range(300)]
    for pattern in (
        r"^1:/var/log/auth\.log:Mar  5 10:20:30 web-01 sshd\[\d+\]: Failed password for ",
        r"^1:/var/log/auth\.log:Mar  5 10:20:30 web-01 sudo: ",
        r'^1:/var/log/nginx/access\.log:\S+ - - \[05/Mar/2026:10:20:30 \+0000\] "GET ',
    ):
        assert any(re.match(pattern, line) for line in lines), pattern


def test_windows_hosts_send_their_event_channel() -> None:
    text = source(("logs",), profile="windows-11").next().decode()
    assert text.startswith("f:EventChannel:{")
    assert "Microsoft-Windows-Security-Auditing" in json.loads(text[15:])["Event"]


def test_rows_of_inventory_have_right_checksums() -> None:
    events = source(("fim",))
    seen = set()
    for _ in range(200):
        data = json.loads(events.next()[len("8:syscheck:") :])["data"]
        seen.add(data["type"])
        assert re.fullmatch("[0-9a-f]{40}", data["attributes"]["checksum"])
    assert seen == {"added", "modified", "deleted"}


def test_unknown_kind_of_event() -> None:
    with pytest.raises(ValueError, match="no such kind of event: poems"):
        source(("poems",))


@pytest.mark.parametrize("text", ["", "4", "four.two", "v4.x"])
def test_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Dialect.of(text)
