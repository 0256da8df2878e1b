"""Keepalive messages: parsing and building (agent-link.md 6.3, 6.4)."""

import re

import msgspec

_ARCHITECTURES = (
    "x86_64",
    "i386",
    "i686",
    "sparc",
    "amd64",
    "i86pc",
    "ia64",
    "AIX",
    "armv6",
    "armv7",
    "aarch64",
    "arm64",
)
_MAJOR = re.compile(r"\d+", re.ASCII)
_MINOR = re.compile(r"\d+\.(\d+)", re.ASCII)
_BUILD = re.compile(r"\d+\.\d+\.(\d+(?:\.\d+)*)", re.ASCII)
_LABEL = re.compile(r'([!#]?)"([^"]+)":(.*)', re.DOTALL)
_ADDRESS = '#"_agent_ip":'
_WINDOWS = " [Ver: "


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The operating system of an agent, as columns of the agent table; None for missing parts."""

    os_name: str | None = None
    os_version: str | None = None
    os_major: str | None = None
    os_minor: str | None = None
    os_codename: str | None = None
    os_build: str | None = None
    os_platform: str | None = None
    os_uname: str | None = None
    os_arch: str | None = None


class Keepalive(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one keepalive. ``labels`` are unparsed lines, ``merged_sum`` is an md5 or ``x``."""

    version: str | None = None
    config_sum: str | None = None
    merged_sum: str | None = None
    agent_ip: str | None = None
    labels: tuple[str, ...] = ()
    system: System = System()


def complete(text: str) -> str:
    """``text`` up to its last newline; the rest is random padding. Empty without a newline."""
    return text[: text.rfind("\n") + 1]


def parse(text: str) -> Keepalive:
    """The fields of a keepalive without the marker of control messages. Never fails."""
    version = config_sum = merged_sum = agent_ip = None
    system: System | None = None
    labels: list[str] = []
    for line in complete(text).split("\n"):
        words = line.split(" ", 2)
        if system is None and " - " in line:
            left, _, right = line.partition(" - ")
            version, _, rest = right.partition(" / ")
            config_sum = rest or None
            system = parse_system(left)
        elif len(words) > 1 and words[1].startswith("merged.m"):
            merged_sum = words[0]
        elif line.startswith(_ADDRESS):
            agent_ip = line[len(_ADDRESS) :]
        elif line:
            labels.append(line)
    return Keepalive(
        version=version,
        config_sum=config_sum,
        merged_sum=merged_sum,
        agent_ip=agent_ip,
        labels=tuple(labels),
        system=system or System(),
    )


def split_label(line: str) -> tuple[str, str] | None:
    """Key, with its ``!`` or ``#``, and value of a label line; None for an invalid line."""
    found = _LABEL.fullmatch(line)
    return (found[1] + found[2], found[3]) if found else None


def parse_system(text: str) -> System:
    """The fields in the first part of the system line."""
    if _WINDOWS in text:
        return _windows(text)
    uname, bracket, inner = text.partition(" [")
    name, codename = None, None
    version: str | None = None
    if bracket and ": " in inner:
        name, _, version = inner.partition(": ")
        version = "".join(version.rsplit("]", 1))
        if " (" in version:
            version, _, codename = version.partition(" (")
            codename = codename.removesuffix(")")
    elif bracket:
        name = inner[:-1]
    platform = None
    if name is not None and "|" in name:
        name, _, platform = name.partition("|")
    return System(
        os_name=name,
        os_version=version,
        os_major=_first(_MAJOR, version, 0),
        os_minor=_first(_MINOR, version, 1),
        os_codename=codename,
        os_platform=platform,
        os_uname=uname,
        os_arch=next((known for known in _ARCHITECTURES if known in uname), None),
    )


def _windows(text: str) -> System:
    name, _, rest = text.partition(_WINDOWS)
    version = rest.removesuffix("]")
    return System(
        os_name=name,
        os_version=version,
        os_major=_first(_MAJOR, version, 0),
        os_minor=_first(_MINOR, version, 1),
        os_build=_first(_BUILD, version, 1),
        os_platform="windows",
        os_uname=name,
    )


def _first(pattern: re.Pattern[str], text: str | None, group: int) -> str | None:
    found = pattern.match(text or "")
    return found[group] if found else None


def build(
    *,
    system: str,
    version: str,
    config_sum: str | None = None,
    merged_sum: str = "x",
    agent_ip: str | None = None,
    labels: tuple[str, ...] = (),
) -> str:
    """The keepalive of an agent, with the marker. ``system`` is the text before the version."""
    head = f"{system} - {version}" + (f" / {config_sum}" if config_sum else "")
    lines = [head, *labels, f"{merged_sum} merged.mg"]
    if agent_ip:
        lines.append(_ADDRESS + agent_ip)
    return "#!-" + "\n".join(lines) + "\n"
