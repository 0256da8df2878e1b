"""Whether an agent can be upgraded by packages, and to which version (agent-link.md 10.3)."""

from typing import NamedTuple

from secmon.agents.wire.version import compare, parse, too_new

OLDEST = "v3.0.0"
OLDEST_MAC = "v4.3.0"
REPORT_SINCE = "v4.1.0"
"""Since this version agents take JSON commands for packages and report the result."""

_NO_PACKAGES = frozenset({"sunos", "aix", "hp-ux", "bsd"})
_TOO_OLD = frozenset({("sles", "11"), ("rhel", "5"), ("centos", "5")})
_ROLLING = frozenset({"opensuse-tumbleweed", "arch"})


class Candidate(NamedTuple):
    """An active agent in the registry; fields are named as its columns."""

    id: int
    node_name: str
    version: str | None
    os_platform: str | None
    os_major: str | None
    os_minor: str | None
    os_arch: str | None


def obstacle(agent: Candidate) -> int | None:
    """Code of the error why an agent cannot be upgraded at all: 1816, 1819, 1821."""
    if not _known(agent):
        return 1816
    platform = agent.os_platform or ""
    if platform in _NO_PACKAGES or platform.endswith("bsd") or (platform, agent.os_major) in _TOO_OLD:
        return 1819
    if "v" not in (agent.version or ""):
        return 1816
    oldest = OLDEST_MAC if platform == "darwin" else OLDEST
    return 1821 if compare(agent.version, oldest) < 0 else None


def obstacle_to(agent: Candidate, target: str, highest: str) -> int | None:
    """Code of the error why an agent is not upgraded to ``target`` unless forced: 1822, 1823 (above ``highest``)."""
    if compare(agent.version, target) >= 0:
        return 1822
    return 1823 if too_new(target, highest) else None


def normal_version(text: str) -> str:
    """``vX.Y.Z`` of a version that may lack the ``v`` or have a product's name in front."""
    return "v" + ".".join(map(str, parse(text)))


def _known(agent: Candidate) -> bool:
    """Whether the system is known well enough to choose a package."""
    platform = agent.os_platform
    if not platform or platform in ("windows", "darwin"):
        return bool(platform)
    major = bool(agent.os_major) or platform in _ROLLING
    minor = bool(agent.os_minor) or platform != "ubuntu"
    return major and minor and bool(agent.os_arch)
