"""Checks of single values that the configuration files share."""

import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple

_HOST_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*\.?", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,12})([smhdw]?)", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})([bBkKmMgG]?)", re.ASCII)
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Check(NamedTuple):
    """Test of a text, and what it allows, in words for the operator."""

    test: Callable[[str], bool]
    allowed: str


def is_ip(text: str) -> bool:
    """An IPv4 or IPv6 address; a scope, if any, is the name or number of an interface."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    scope = address.scope_id if isinstance(address, ipaddress.IPv6Address) else None
    return scope is None or re.fullmatch(r"[A-Za-z0-9_.-]+", scope) is not None


def is_host(text: str) -> bool:
    """An IP address or a host name; a name of digits and dots only is a mistyped address."""
    if is_ip(text):
        return True
    return len(text) <= 253 and _HOST_NAME.fullmatch(text) is not None and not re.fullmatch(r"[0-9.]+", text)


def is_network(text: str) -> bool:
    """An address, or a network as address/bits or address/mask; a leading ``!`` negates; ``any`` is every address."""
    if text == "any":
        return True
    try:
        ipaddress.ip_network(text.removeprefix("!"), strict=False)
    except ValueError:
        return False
    return True


def seconds(text: str) -> int | None:
    """Seconds of a number with an optional suffix s, m, h, d or w (manager.md 4); None when it is none."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * _UNIT_SECONDS[match[2]] if match else None


def size(text: str) -> int | None:
    """Bytes of a number with an optional suffix B, K, M or G (either case); None when it is none."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNIT_BYTES[match[2].lower()] if match else None


def _within(value: int | None, low: int, high: int | None) -> bool:
    return value is not None and value >= low and (high is None or value <= high)


def _range(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else f"{low} to {high}"


def integer(low: int = 0, high: int | None = None) -> Check:
    """Digits within a range, bounds included."""
    return Check(
        lambda text: re.fullmatch(r"[0-9]{1,18}", text) is not None and _within(int(text), low, high),
        f"a whole number, {_range(low, high)}",
    )


def duration(low: int = 0, high: int | None = None) -> Check:
    """A time of ``low`` to ``high`` seconds."""
    return Check(
        lambda text: _within(seconds(text), low, high),
        f"a number with an optional suffix s, m, h, d or w, {_range(low, high)} seconds",
    )


def choice(*words: str) -> Check:
    """One of the words, spelt exactly."""
    return Check(lambda text: text in words, ", ".join(words))


def or_zero(check: Check) -> Check:
    """The check, or 0 for "off"."""
    return Check(lambda text: text == "0" or check.test(text), f"0, or {check.allowed}")


TEXT = Check(lambda text: True, "any text")
NOT_EMPTY = Check(lambda text: bool(text.strip()), "a text that is not empty")
BOOLEAN = choice("yes", "no")
HOST = Check(is_host, "an IP address or host name")
NETWORK = Check(is_network, "an IP address or network")
PORT = integer(1, 65535)
