"""Decoders written in code for a few devices (ruleset.md 5.7)."""

import re

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.event import Event

_PF = re.compile(rb"\) (?P<action>.)[^:]*: (?P<source>\S+) > (?P<target>[^:]*): ?(?P<rest>.?)", re.DOTALL)
_PF_ACTIONS = {b"p": b"pass", b"b": b"block"}
_PF_PROTOCOLS = {b"u": b"UDP", b"i": b"ICMP"}


def decode_pf(event: Event, text: bytes, decoder: Decoder) -> None:
    """The packet filter of BSD: ``rule 1/(match) pass in on em0: 192.0.2.1.55 > 192.0.2.2.22: tcp ...``."""
    found = _at(_PF, text, b") ")
    if found is None:
        return
    action = _PF_ACTIONS.get(found["action"])
    if action is None:
        return
    event.static["action"] = action
    for name, value in (("src", found["source"]), ("dst", found["target"])):
        parts = value.split(b".")
        event.static[f"{name}ip"] = b".".join(parts[:4])
        if len(parts) == 5:
            event.static[f"{name}port"] = parts[4]
    event.static["protocol"] = _PF_PROTOCOLS.get(found["rest"], b"TCP")


_SYMANTEC = {b"10": ("dstuser", 128), b"11": ("srcip", 128), b"60": ("url", 1024)}


def decode_symantec(event: Event, text: bytes, decoder: Decoder) -> None:
    """Symantec Web Security: a list of ``number=value``."""
    for part in text.split(b","):
        number, equals, value = part.partition(b"=")
        if not equals:
            continue
        if number in _SYMANTEC:
            name, limit = _SYMANTEC[number]
            event.static.setdefault(name, value[:limit])
        elif number in (b"3", b"2"):
            event.static.setdefault("id", part[:9])


_SONICWALL = re.compile(rb"pri=(?P<status>\S+) c=(?P<category>\S+) m=(?P<id>\S+) ")
_END = re.compile(rb"...=([^:\s]+):?(\d*)")
_PROTOCOL = re.compile(rb"proto=(\S+)")
_PAIRS = re.compile(rb"(result|dstname|arg)=(\S+)")
_SONIC_ACTIONS = {
    **dict.fromkeys((b"98", b"597", b"598"), b"pass"),
    **dict.fromkeys((b"36", b"37", b"38", b"173", b"174"), b"drop"),
    b"537": b"close",
}


def decode_sonicwall(event: Event, text: bytes, decoder: Decoder) -> None:
    """SonicWall: status, id and addresses; the id determines the kind of event."""
    event.category = "syslog"
    head = _SONICWALL.search(text)
    if head is None:
        return
    event.static["status"], event.static["id"] = head["status"], head["id"]
    for name in ("src", "dst"):
        if end := _at(_END, text, name.encode() + b"="):
            event.static[f"{name}ip"] = end[1]
            if end[2]:
                event.static[f"{name}port"] = end[2]
    if protocol := _PROTOCOL.search(text):
        event.static["protocol"] = protocol[1]
    if head["category"] == b"32":
        event.category = "ids"
    elif (action := _SONIC_ACTIONS.get(head["id"])) is not None:
        event.category, event.static["action"] = "firewall", action
    elif head["id"] == b"97":
        event.category = "squid"
        pairs = dict(_PAIRS.findall(text))
        if b"result" in pairs:
            event.static["id"] = pairs[b"result"]
        if b"dstname" in pairs:
            event.static["url"] = pairs[b"dstname"] + pairs.get(b"arg", b"")


_FORWARDED = re.compile(
    rb"Alert Level: \d+; Rule: (?P<rule>\d{1,18}) - .*?; Location: (?P<location>[^;]*);(?P<rest>.*)", re.DOTALL
)
_FORWARDED_FIELD = re.compile(rb" (srcip|user): ([^;]*);")


def decode_forwarded_alert(event: Event, text: bytes, decoder: Decoder) -> None:
    """An alert that another server forwarded as text: it keeps its rule, its place and its log."""
    found = _at(_FORWARDED, text, b"Alert Level: ")
    if found is None:
        return
    place, rest = found["location"].strip(), found["rest"]
    event.location += b"|" + place
    event.hostname += b"|" + place
    while (field := _FORWARDED_FIELD.match(rest)) is not None:
        event.static["srcip" if field[1] == b"srcip" else "dstuser"] = field[2].strip()
        rest = rest[field.end() :]
    event.log = rest.lstrip()
    event.bound_rule = int(found["rule"])


def _at(pattern: re.Pattern[bytes], text: bytes, start: bytes) -> re.Match[bytes] | None:
    """``pattern`` at the first ``start`` only, so that the time is linear in the text."""
    at = text.find(start)
    return pattern.match(text, at) if at >= 0 else None
