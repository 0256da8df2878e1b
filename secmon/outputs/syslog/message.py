"""An alert as a syslog message: the public formats, in the frame of RFC 3164 or RFC 5424."""

import calendar
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import msgspec

from secmon import __version__
from secmon.config.outputs import SyslogOutput
from secmon.outputs.alert import Alert

PRIORITY = 132
"""Facility local0, severity warning: what collectors of such messages filter by."""
PROGRAM = "ossec"
"""The program in the header, as collectors know it."""
MAX_BYTES = 65_000
"""Of a message: it fits into one datagram."""
_MOST_LOG = 8192
"""Characters of a log in a message that is not JSON."""

_MONTHS = tuple(calendar.month_abbr)  # fixed at import: a later locale changes nothing
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LARGE = ("previous_output", "previous_log", "full_log")
"""Fields that are left out of a JSON message that is too long, one after the other."""
_SYSCHECK = (("md5", "MD5"), ("sha1", "SHA1"), ("sha256", "SHA256"))

Body = Callable[[Alert], str]


class MessageMaker:
    """Makes the messages of one output."""

    def __init__(self, settings: SyslogOutput, host: str) -> None:
        """``host``: of this node, in the header."""
        self._body = BODIES[settings.format]
        self._modern = settings.rfc == 5424
        self._bare = settings.format == "cef"  # whose header takes the place of the program
        self._host = _CONTROL.sub("", host) or "-"

    def message(self, alert: Alert, now: datetime) -> bytes:
        """The message without framing; it has no line end. ``now``: the time of an alert without one."""
        body = f"{self._header(alert.time or now)}{self._body(alert)}".encode("utf-8", "replace")
        return body if len(body) <= MAX_BYTES else body[:MAX_BYTES].decode("utf-8", "ignore").encode()

    def _header(self, when: datetime) -> str:
        if self._modern:
            return f"<{PRIORITY}>1 {when.isoformat(timespec='milliseconds')} {self._host} {PROGRAM} - - - "
        stamp = f"{_MONTHS[when.month]} {when.day:2d} {when:%H:%M:%S}"
        return f"<{PRIORITY}>{stamp} {self._host} " + ("" if self._bare else f"{PROGRAM}: ")


def default_body(alert: Alert) -> str:
    """``Alert Level: 5; Rule: 5716 - ...; Location: ...; classification: ...; srcip: ...; <log>``."""
    parts = [
        f"Alert Level: {alert.level}",
        f"Rule: {alert.rule} - {alert.description}",
        f"Location: {alert.place}",
        f"classification: {alert.groups}",
        *(f"{name}: {value}" for name, value in _addresses(alert, "srcip", "dstip", "user")),
    ]
    for field, shown in _SYSCHECK:
        for moment, word in (("before", "Previous"), ("after", "Current")):
            if value := alert.text("syscheck", f"{field}_{moment}"):
                parts.append(f"{word} {shown}: {value}")
    return _plain("; ".join([*parts, _log(alert)]))


def cef_body(alert: Alert) -> str:
    """``CEF:0|vendor|product|version|rule|description|severity|extension``."""
    header = ["CEF:0", "secmon", "secmon", __version__, alert.rule, alert.description, str(min(10, alert.level))]
    extension: dict[str, str] = {
        "dvc": alert.text("manager", "name"),
        "cs1": alert.place,
        "cs1Label": "Location",
        "cat": alert.groups,
        **dict(_addresses(alert, "src", "dst", "suser")),
        "spt": _port(alert.text("data", "srcport")),
        "dpt": _port(alert.text("data", "dstport")),
        "fname": alert.text("syscheck", "path"),
        "externalId": alert.text("id"),
    }
    for number, (field, shown) in enumerate(_SYSCHECK, 2):
        if value := alert.text("syscheck", f"{field}_after"):
            extension |= {f"cs{number}": value, f"cs{number}Label": f"New{shown}"}
    extension["msg"] = _log(alert)
    fields = " ".join(f"{name}={_cef_value(value)}" for name, value in extension.items() if value)
    return "|".join([header[0], *map(_cef_header, header[1:]), fields])


def splunk_body(alert: Alert) -> str:
    """``crit=5 id=5716 description="..." component="...", classification="...", ...``."""
    pairs = {
        "classification": alert.groups,
        **dict(_addresses(alert, "src_ip", "dst_ip", "acct")),
        "file": alert.text("syscheck", "path"),
        "message": _log(alert),
    }
    shown = "".join(f", {name}={_quoted(value)}" for name, value in pairs.items() if value)
    description, component = _quoted(alert.description), _quoted(alert.place)
    return f"crit={alert.level} id={alert.rule} description={description} component={component}{shown}"


def json_body(alert: Alert) -> str:
    """The line of alerts.json; of one that is too long the largest texts are left out."""
    line, fields = alert.line, dict(alert.fields)
    for name in _LARGE:
        if len(line) <= MAX_BYTES - 512:
            break
        if fields.pop(name, None) is not None:
            line = msgspec.json.encode(fields)
    return line.decode("utf-8", "replace")


BODIES: Mapping[str, Body] = {"default": default_body, "cef": cef_body, "splunk": splunk_body, "json": json_body}


def _addresses(alert: Alert, source: str, destination: str, user: str) -> Iterator[tuple[str, str]]:
    """Addresses and user of the event, under the names of a format."""
    for name, field in ((source, "srcip"), (destination, "dstip"), (user, "dstuser")):
        if value := alert.text("data", field):
            yield name, value


def _log(alert: Alert) -> str:
    return alert.text("full_log")[:_MOST_LOG]


def _plain(text: str) -> str:
    """``text`` on one line."""
    return _CONTROL.sub(" ", text)


def _quoted(text: str) -> str:
    return json.dumps(_plain(text), ensure_ascii=False)


def _cef_header(text: str) -> str:
    return _plain(text).replace("\\", "\\\\").replace("|", "\\|")


def _cef_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("=", "\\=").replace("\r", "").replace("\n", "\\n").translate(_NO_CONTROL)


def _port(text: str) -> str:
    return text if text.isascii() and text.isdecimal() else ""


_NO_CONTROL = dict.fromkeys([*range(32), 127], " ")
