"""Predecoding: time, host and program of a message, before any decoder (ruleset.md 4)."""

import re
from datetime import datetime
from typing import NamedTuple

from secmon.engine.event import MANAGER_ID, Event

SHORTEST = 4
"""Bytes of the shortest message; shorter ones are malformed."""


class Header(NamedTuple):
    """The fields of a log header, and the rest of the log."""

    timestamp: bytes | None
    hostname: bytes | None
    program_name: bytes | None
    log: bytes


class Message(NamedTuple):
    """A message of the event queue. ``location`` is unescaped."""

    queue: str
    location: bytes
    log: bytes


_LOCATION_END = re.compile(rb"(?:[^|:]|\|.)*?(?=:)", re.DOTALL)
_ESCAPED = re.compile(rb"\|([|:])")
_AGENT = re.compile(rb"\[(\d{1,9})\] (\((.*?)\) [^>]*->.*)", re.DOTALL)


def split_message(data: bytes) -> Message | None:
    """Split ``<queue>:<escaped location>:<log>``; None for anything else."""
    if len(data) < SHORTEST or data[1:2] != b":":
        return None
    found = _LOCATION_END.match(data, 2)
    if found is None:
        return None
    location = found[0]
    if b"|" in location:
        location = _ESCAPED.sub(rb"\1", location)
    return Message(chr(data[0]), location, data[found.end() + 1 :])


def agent_of(location: bytes) -> str:
    """The number of the agent that an unescaped location names, in text; that of the manager without one."""
    agent = _AGENT.fullmatch(location)
    return agent[1].decode() if agent and agent[1] else MANAGER_ID


def predecode(message: Message, *, time: datetime, host: bytes) -> Event:
    """The event of a message that is processed at ``time`` on the manager ``host`` (its short name)."""
    header = read_header(message.log)
    agent = _AGENT.fullmatch(message.location)
    event = Event(
        queue=message.queue,
        location=agent[2] if agent else message.location,
        full_log=message.log,
        log=header.log,
        time=time,
        received=int(time.timestamp()),
        hostname=header.hostname or host,
        program_name=header.program_name,
        timestamp=header.timestamp,
        size=len(header.log),
    )
    if agent:
        event.agent_id = agent[1].decode() if agent[1] else MANAGER_ID
        event.agent_name = event.hostname = agent[3]
    return event


def _form(template: str, rest: bytes = b"") -> re.Pattern[bytes]:
    """A header by its fixed positions: ``_`` is any byte, ``9`` a digit, ``±`` a sign, all else is literal."""
    classes = {"_": b".", "9": rb"\d", "±": rb"[+-]"}
    return re.compile(b"".join(classes.get(one) or re.escape(one.encode()) for one in template) + rest, re.DOTALL)


# With a host and a program behind them (rows 1 to 5 of ruleset.md 4.3), and the bytes of the header.
_SYSLOG = _form("___ __ __:__:__ _")
_WITH_HOST = (
    (_SYSLOG, 16),
    (_form("____-__-__ __:__:__,____"), 24),
    (_form("____-__-__T__:__:__", rb"\.\d+Z .{5}"), 0),  # its length is where the blank is: _header_size
    (_form("____-__-__T__:__:_____:__ ", b".{7}"), 26),
    (_form("____-__-__T__:__:__.______:", b".{6}"), 30),
    (_form("____-__-__T__:__:__._________:", b".{3}"), 33),
    (_form("____-__-__T__:__:__.", b".{13}"), 32),
    (_form("9___ ___ __ __:__:__ "), 21),
    (_form("9___-__-__ __:__:__.______±____ _"), 32),
)
# Without (rows 6 to 9): where the time begins and ends, and where the log begins.
_TIME_ONLY = (
    (_form("___ ___ __ __:__:__ ____ _ _"), 0, 24, 25),
    (_form("__/__-__:__:__.______ __"), 0, 21, 23),
    (_form("__/__/____-__:__:__.______ "), 0, 26, 28),
    (_form("[___ ___ __ __:__:__ ____]_"), 1, 25, 27),
)
_APPLE = _form("[T___ ____.__.__ __:______")
_APPLE_FIELDS = re.compile(rb"\[(\w+) ([^\]]*)\]")
_APPLE_START = 25
_PROXY = _form("1999______.__9 ", rb"(?:.{6}|.{7}) ")
_PROXY_TIME, _PROXY_SHORTEST = 14, 32
_FORMS = re.compile(
    b"|".join(
        b"(%b)" % one.pattern
        for one in (*(form for form, _ in _WITH_HOST), *(form for form, *_ in _TIME_ONLY), _APPLE, _PROXY)
    ),
    re.DOTALL,
)
"""All forms in the order in which they are tried."""
_FIRST_TIME_ONLY = len(_WITH_HOST) + 1
_NUMBER_APPLE = _FIRST_TIME_ONLY + len(_TIME_ONLY)
"""Numbers of the forms without a host, and of the bracketed one."""
_UMLAUT = "ä".encode()

_NAME = rb"[A-Za-z0-9()\-./@_]"
_PROGRAM_ALONE = re.compile(rb"(%b+): " % _NAME)
_HOST = re.compile(rb"(%b+) " % _NAME)
_PROGRAM = re.compile(rb"(%b+)(?:: ?|\[\d+\]: ?|\[\d+\] )" % _NAME)
_FACILITY = re.compile(
    rb"%b+\|(?=[a-z])[A-Za-z0-9]*:[A-Za-z0-9]* (?:(%b+)(?:: |\[\d+\]: )|(.*))" % (_NAME, _NAME), re.DOTALL
)
_MESSAGE_ID = re.compile(rb"\[ID [^\]]*\].", re.DOTALL)


def read_header(log: bytes) -> Header:
    """Recognise one of the eleven header forms; a log without a header is returned whole."""
    if log[1:3] == _UMLAUT and _SYSLOG.match(log[:1] + b"_" + log[3:]):
        return _with_host(log, log[:15], 17)  # a German March; the time loses its last digit
    found = _FORMS.match(log)
    number = found.lastindex if found else None
    if number is None:
        return Header(None, None, None, log)
    if number < _FIRST_TIME_ONLY:
        size = _WITH_HOST[number - 1][1] or log.index(b"Z ") + 2
        return _with_host(log, log[: size - 1], size)
    if number < _NUMBER_APPLE:
        _, start, end, rest = _TIME_ONLY[number - _FIRST_TIME_ONLY]
        return Header(log[start:end], None, None, log[rest:])
    if number == _NUMBER_APPLE:
        return _bracketed(log)
    if len(log) >= _PROXY_SHORTEST:
        body = log[_PROXY_TIME:].lstrip(b" ")
        return Header(log[: len(log) - len(body) - 1], None, None, body)
    return Header(None, None, None, log)


def _with_host(log: bytes, timestamp: bytes, size: int) -> Header:
    """Host and program after a header of ``size`` bytes (ruleset.md 4.4)."""
    body = log[size + (log[size : size + 1] == b" ") :]
    hostname = program = None
    if alone := _PROGRAM_ALONE.match(body):
        program, body = alone[1], body[alone.end() :]
    elif host := _HOST.match(body):
        hostname, body = host[1], body[host.end() :]
        if found := _PROGRAM.match(body):
            program, body = found[1], body[found.end() :]
        elif found := _FACILITY.match(body):
            program = found[1] if found[2] is None else found[2]
            body = body[found.end() :]
    if identified := _MESSAGE_ID.match(body):
        body = body[identified.end() :]
    return Header(timestamp, hostname, program, body)


def _bracketed(log: bytes) -> Header:
    """``[Time ...] [Sender ...] [Message ...] [Host ...]`` (ruleset.md 4.5)."""
    program = message = hostname = None
    for found in _APPLE_FIELDS.finditer(log, _APPLE_START):
        match found[1]:
            case b"Sender" if program is None:
                program = found[2]
            case b"Message" if message is None:
                message = found[2]
            case b"Host":
                hostname = found[2]
                break
    return Header(None, hostname, program, log if message is None else message)
