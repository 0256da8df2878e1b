"""Headers of logs, against the worked examples (ruleset.md 4.6, E-40)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.input.predecode import Message, predecode, read_header, split_message

NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
S = "Nov 14 22:13:20"
ISO = "2023-11-14T22:13:20"
REST = " gate01 turnstile: door"
EXAMPLES: list[tuple[str, str | None, str | None, str | None, str]] = [
    (f"{S} gate01 turnstile[771]: door forced", S, "gate01", "turnstile", "door forced"),
    ("Nov  4 22:13:20 gate01 turnstile: door", "Nov  4 22:13:20", "gate01", "turnstile", "door"),
    (f"{S} gate01 turnstile:door", S, "gate01", "turnstile", "door"),
    (f"{S} gate01 turnstile[771] door", S, "gate01", "turnstile", "door"),
    (f"{S} gate01 turnstile[77x]: door", S, "gate01", None, "turnstile[77x]: door"),
    (f"{S} gate01 door forced", S, "gate01", None, "door forced"),
    (f"{S} turnstile: door", S, None, "turnstile", "door"),
    (f"{S} gate#1 turnstile: door", S, None, None, "gate#1 turnstile: door"),
    (f"2023 {S} gate01 turnstile: door", f"2023 {S}", "gate01", "turnstile", "door"),
    (f"{ISO}+01:00{REST}", f"{ISO}+01:00", "gate01", "turnstile", "door"),
    (f"{ISO}.123+01:00{REST}", f"{ISO}.123+01:00", "gate01", "turnstile", "door"),
    (f"{ISO}.123456+01:00{REST}", f"{ISO}.123456+01:00", "gate01", "turnstile", "door"),
    (f"{ISO}.123456+0100{REST}", f"{ISO}.123456+0100", "gate01", "turnstile", "door"),
    (f"{ISO}Z{REST}", None, None, None, f"{ISO}Z{REST}"),
    # Q26: the counterpart takes three bytes of the host for the time
    (f"{ISO}.123456Z{REST}", f"{ISO}.123456Z", "gate01", "turnstile", "door"),
    ("2023-11-14 22:13:20,805 gate01 turnstile[9]: door", "2023-11-14 22:13:20,805", "gate01", "turnstile", "door"),
    ("2023-11-14 22:13:20.404756-0700  gate01 turnstile[9]: door", "2023-11-14 22:13:20.404756-0700", "gate01",
     "turnstile", "door"),
    ("Tue Nov 14 22:13:20 2023 1 192.0.2.4 door", "Tue Nov 14 22:13:20 2023", None, None, "1 192.0.2.4 door"),
    ("11/14-22:13:20.240702  [**] door", "11/14-22:13:20.240702", None, None, "[**] door"),
    ("11/14/2023-22:13:20.240702  [**] door", "11/14/2023-22:13:20.240702", None, None, "[**] door"),
    ("[Tue Nov 14 22:13:20 2023] [warn] door open", "Tue Nov 14 22:13:20 2023", None, None, "[warn] door open"),
    (
        "[Time 2023.11.14 22:13:20 UTC] [Facility auth] [Sender sshd] [PID 48] [Message door open for joe] [Level 3] "
        "[Host mac7]",
        None, "mac7", "sshd", "door open for joe",
    ),
    ("1700000000.368  11623 192.0.2.9 TCP/200 door", "1700000000.368 ", None, None, "11623 192.0.2.9 TCP/200 door"),
    (f"<14>{S} gate01 turnstile: door", None, None, None, f"<14>{S} gate01 turnstile: door"),
    (f"{S} gate01 auth|security:info su: door", S, "gate01", "su", "door"),
    (f"{S} gate01 su: [ID 366847 auth.notice] door ok", S, "gate01", "su", "door ok"),
    ("Mär 14 22:13:20 gate01 su: door", "Mär 14 22:13:2", "gate01", "su", "door"),
]  # fmt: skip


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@pytest.mark.parametrize(("log", "timestamp", "host", "program", "rest"), EXAMPLES)
def test_headers(log: str, timestamp: str | None, host: str | None, program: str | None, rest: str) -> None:
    found = read_header(log.encode())
    assert tuple(text(one) for one in found) == (timestamp, host, program, rest)


def test_an_agents_event() -> None:
    message = split_message(f"1:[007] (web-7) 192.0.2.7->/var/log/x:{S} gate01 cron: hi".encode())
    assert message is not None
    event = predecode(message, time=NOW, host=b"mgr")
    assert (event.agent_id, event.agent_name, event.hostname, event.program_name) == (
        "007",
        b"web-7",
        b"web-7",
        b"cron",
    )
    assert (event.location, event.log, event.size) == (b"(web-7) 192.0.2.7->/var/log/x", b"hi", 2)


def test_the_managers_own_event() -> None:
    event = predecode(Message("1", b"/var/log/x", b"door"), time=NOW, host=b"mgr")
    assert (event.agent_id, event.hostname, event.location, event.received) == (
        "000",
        b"mgr",
        b"/var/log/x",
        1700000000,
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"1:a|:b||c:log: more\nlines", Message("1", b"a:b|c", b"log: more\nlines")),
        (b"1:C:\\log:x", Message("1", b"C", b"\\log:x")),
        (b"f:EventChannel:{}", Message("f", b"EventChannel", b"{}")),
        (b"1::", None),
        (b"1:abc", None),
        (b"12:abc:d", None),
    ],
)
def test_messages_of_the_queue(data: bytes, expected: Message | None) -> None:
    assert split_message(data) == expected


@given(st.one_of(st.binary(max_size=60), st.sampled_from([one[0].encode() for one in EXAMPLES]).flatmap(
    lambda log: st.integers(0, len(log)).map(lambda size: log[:size])
)))  # fmt: skip
def test_any_log_has_a_rest_that_it_ends_with_or_holds(log: bytes) -> None:
    found = read_header(log)
    assert found.log in log
    assert all(one is None or one in log for one in found)
