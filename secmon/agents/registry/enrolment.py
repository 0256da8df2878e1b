"""Enrolment requests: parsing, and the texts of replies (agent-link.md 1.4-1.9).

Pure functions: no file, no clock, no store. The texts of replies are exact, including misspellings, as scripts match
them.
"""

import hmac
import re
import string

from msgspec import Struct

from secmon.agents.names import AGENT_NAME, ANY, normal_address
from secmon.agents.registry.entries import Entry
from secmon.agents.wire.version import too_new
from secmon.common.errors import SecmonError

MAX_REQUEST = 65_536 + 4096
"""Bytes of a request."""

END_OF_REFUSAL = "ERROR: Unable to add agent"
"""Sent after each refusal, in a separate write."""

NO_MASTER = "Cannot comunicate with master"
BAD_ANSWER = "Invalid message format"

_PASS = b"OSSEC PASS: "
_ADD = "OSSEC A:'"
_GROUP_CHARACTERS = frozenset(string.ascii_letters + string.digits + ".:;_-=+!@(),")
_MAX_GROUP, _MAX_GROUPS_TEXT, _MAX_VERSION, _MAX_ADDRESS = 255, 65_535, 2048, 46
_SHA1 = re.compile(r"[0-9a-fA-F]{40}", re.ASCII)


class Rules(Struct, frozen=True, kw_only=True):
    """Settings for requests. ``password`` None: requests carry no password; ``highest_version`` None: any version."""

    password: bytes | None = None
    use_source_ip: bool = False
    highest_version: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """A parsed request. ``groups`` lowest priority first; ``address`` in the form of the registry."""

    name: str
    address: str = ANY
    groups: tuple[str, ...] = ()
    key_hash: str | None = None


class Refusal(Exception):
    """The reason of a refusal; the text that follows ``ERROR: ``."""

    @property
    def line(self) -> str:
        return f"ERROR: {self}"


def parse(data: bytes, source: str, rules: Rules) -> Request:
    """The request that ``data`` holds, sent from the address ``source``. Raises :class:`Refusal`.

    Bytes after a NUL or a line feed do not count.
    """
    text = _check_password(re.split(rb"[\0\n]", data, maxsplit=1)[0], rules.password)
    name, rest = _name(text.decode("utf-8", "surrogateescape"))
    version, rest = _field(rest, "V", "version")
    if version is not None and len(version) > _MAX_VERSION:
        raise Refusal("Unterminated version field")
    if version and too_new(version, rules.highest_version):
        raise Refusal("Agent version must be lower or equal to manager version")
    groups, rest = _field(rest, "G", "group")
    checked = () if groups is None else _groups(groups)
    address, rest = _field(rest, "IP", "IP")
    registered = _address(address, source, rules.use_source_ip)
    key, _ = _field(rest, "K", "key")
    # An invalid hash matches no key: as if there were none.
    key_hash = key.lower() if key is not None and _SHA1.fullmatch(key) else None
    return Request(name=name, address=registered, groups=checked, key_hash=key_hash)


def accepted(entry: Entry) -> bytes:
    """The reply to an agent that was added; no line's end."""
    return f"OSSEC K:'{entry.line}'".encode()


def refusal(request: Request, error: SecmonError, *, host_name: str) -> Refusal:
    """The master's reply when the registry has refused ``request`` with ``error``."""
    match error.code:
        case 1705 if request.name == host_name:
            return Refusal(f"Invalid agent name: {request.name}")
        case 1705:
            return Refusal(f"Duplicate agent name: {request.name}")
        case 1706:
            return Refusal(f"Duplicate IP: {request.address}")
        case 1710:
            return Refusal(f"Invalid group: {error.extra}")
        case 1737:
            return Refusal("Maximum multigroup reached: Limit is 128")
    return Refusal(f"Internal manager error adding agent: {request.name}")


_MASTER_REFUSALS = {
    1705: "Duplicate name",
    1706: "Duplicate IP",
    1710: "Invalid Group(s) Name(s)",
    1725: "Issue generating key",
    1737: "Invalid Group(s) Name(s)",
}
_UNREACHABLE = frozenset({3012, 3013, 3018, 3020, 3021, 3022, 3023, 3050, 3051, 3052, 3053})


def relayed_refusal(error: SecmonError) -> Refusal:
    """A worker's reply when the master has refused or cannot be reached (section 3.3)."""
    if error.code in _UNREACHABLE:
        return Refusal(NO_MASTER)
    if error.code == 3036:
        return Refusal(BAD_ANSWER)
    return Refusal(_MASTER_REFUSALS.get(error.code, "Internal error"))


def _check_password(data: bytes, password: bytes | None) -> bytes:
    """The data after the password."""
    if password is None:
        return data
    expected = password + b" "
    if not data.startswith(_PASS):
        raise Refusal("Invalid password")
    rest = data[len(_PASS) :]
    if not hmac.compare_digest(rest[: len(expected)], expected):
        raise Refusal("Invalid password")
    return rest[len(expected) :]


def _name(text: str) -> tuple[str, str]:
    if not text.startswith(_ADD):
        raise Refusal("Invalid request for new agent")
    name, quote, rest = text[len(_ADD) :].partition("'")
    if not quote:
        raise Refusal("Invalid request for new agent")
    if not AGENT_NAME.fullmatch(name):
        raise Refusal(f"Invalid agent name: {name}")
    return name, rest


def _field(text: str, token: str, word: str) -> tuple[str | None, str]:
    """The value of ``token`` if ``text`` starts with it, and the rest of the text."""
    begin = f" {token}:'"
    if not text.startswith(begin):
        return None, text
    value, quote, rest = text[len(begin) :].partition("'")
    if not quote:
        raise Refusal(f"Unterminated {word} field")
    return value, rest


def _groups(text: str) -> tuple[str, ...]:
    """The group names, without duplicates. The master checks whether they exist."""
    if not text:
        raise Refusal("Invalid group name: Empty Group")
    fault = _group_fault(text)
    if fault:
        raise Refusal(f"Invalid group name: {text[:_MAX_GROUP]}... {fault}")
    return tuple(dict.fromkeys(text.split(",")))


def _group_fault(text: str) -> str:
    several = "," in text
    if any(len(one) > _MAX_GROUP for one in text.split(",")):
        return "group is too large"
    if len(text) > _MAX_GROUPS_TEXT:
        return "multigroup is too large"
    if several and " " in text:
        return "white spaces are not allowed"
    if ",," in text:
        return "consecutive ',' are not allowed"
    if text.startswith(",") or text.endswith(","):
        return "cannot start or end with ','"
    if not _GROUP_CHARACTERS.issuperset(text):
        return "characters '\\/:*?\"<>|,' are prohibited"
    return ""


def _address(given: str | None, source: str, use_source_ip: bool) -> str:
    if given is None:
        return normal_address(source) if use_source_ip else ANY
    if given.startswith("src"):
        return normal_address(source)
    try:
        if len(given) > _MAX_ADDRESS:
            raise ValueError
        return normal_address(given)
    except ValueError:
        raise Refusal(f"Invalid IP: {given}") from None
