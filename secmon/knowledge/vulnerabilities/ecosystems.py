"""The ecosystems of packages that agents report, as feeds name them and as hosts belong to them (agent-data.md 9.7).

An ecosystem has one name here, whatever repositories, products or support terms of a release a feed distinguishes:
``Red Hat:enterprise_linux:9::baseos`` and ``...::appstream`` are ``Red Hat:enterprise_linux:9``, and all of SUSE's
products and modules of 15 SP5 are ``SUSE:15 SP5``.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

WINDOWS = "Windows"
"""Of secmon's own: no public feed has one. Names are products, versions are builds."""


class Kind(NamedTuple):
    """A family of ecosystems: the order of its versions, and its name for a release of a feed; None: not used.

    ``by_source``: advisories name the source package.
    """

    order: str
    release: Callable[[str], str | None]
    by_source: bool = False


def _pattern(pattern: str) -> Callable[[str], str | None]:
    """Takes what the groups of ``pattern`` match, where all of a release does."""
    compiled = re.compile(pattern)

    def release(found: str) -> str | None:
        match = compiled.fullmatch(found)
        return None if match is None else "".join(part or "" for part in match.groups())

    return release


_NUMBER = _pattern(r"v?(\d+(?:\.\d+)*)")
_MAJOR = _pattern(r"(\d+)(?:\.\d+)*")
_SINGLE = _pattern("()")

KINDS: Mapping[str, Kind] = {
    "Debian": Kind("deb", _NUMBER, by_source=True),
    "Ubuntu": Kind("deb", _pattern(r"(?:Pro:)?(\d+\.\d+)(?::LTS)?"), by_source=True),
    "AlmaLinux": Kind("rpm", _MAJOR),
    "Rocky Linux": Kind("rpm", _MAJOR),
    "Red Hat": Kind("rpm", _pattern(r"([a-z_]+:\d+(?:\.\d+)?)(?:::.*)?")),
    "SUSE": Kind("rpm", _pattern(r".*?(\d+)(?:\.\d+)?( SP\d+)?(?:-[A-Z-]+)?(?: .*)?")),
    "openSUSE": Kind("rpm", _pattern(r"(Leap \d+\.\d+|Tumbleweed)(?: .*)?")),
    "Alpine": Kind("apk", _pattern(r"v?(\d+\.\d+)(?:\.\d+)*"), by_source=True),
    "Wolfi": Kind("apk", _SINGLE, by_source=True),
    "Chainguard": Kind("apk", _SINGLE, by_source=True),
    "Arch Linux": Kind("pacman", _SINGLE),
    "PyPI": Kind("pypi", _SINGLE),
    "npm": Kind("npm", _SINGLE),
    WINDOWS: Kind("windows", _SINGLE),
}
"""By the part of an ecosystem's name before the first colon."""


def ecosystem_of(name: str) -> str | None:
    """The ecosystem that a feed calls ``name``; None: no agent reports packages of it."""
    family, _, release = name.partition(":")
    kind = KINDS.get(family)
    found = None if kind is None else kind.release(release)
    return None if found is None else f"{family}:{found}".rstrip(":")


@cache
def kind_of(ecosystem: str) -> Kind:
    """Raises KeyError for one that :func:`ecosystem_of` has not returned."""
    return KINDS[ecosystem.partition(":")[0]]


def package_name(ecosystem: str, name: str) -> str:
    """A name as it is compared: Python's without case and punctuation, products of Windows without case."""
    if ecosystem == "PyPI":
        return re.sub(r"[-_.]+", "-", name).lower()
    return name.lower() if ecosystem == WINDOWS else name


class System(NamedTuple):
    """A host's operating system, as its inventory has it."""

    platform: str = ""
    name: str = ""
    version: str = ""
    major: str = ""
    minor: str = ""


_BY_PLATFORM: Mapping[str, Callable[[System], str]] = {
    "debian": lambda found: f"Debian:{found.major}",
    "ubuntu": lambda found: f"Ubuntu:{found.major}.{found.minor}",
    "almalinux": lambda found: f"AlmaLinux:{found.major}",
    "rocky": lambda found: f"Rocky Linux:{found.major}",
    "rhel": lambda found: f"Red Hat:enterprise_linux:{found.major}",
    "centos": lambda found: f"Red Hat:enterprise_linux:{found.major}",
    "sles": lambda found: _suse(found),
    "sled": lambda found: _suse(found),
    "suse": lambda found: _suse(found),
    "opensuse-leap": lambda found: f"openSUSE:Leap {found.major}.{found.minor}",
    "opensuse-tumbleweed": lambda found: "openSUSE:Tumbleweed",
    "alpine": lambda found: f"Alpine:{found.major}.{found.minor}",
    "wolfi": lambda found: "Wolfi",
    "chainguard": lambda found: "Chainguard",
    "arch": lambda found: "Arch Linux",
    "windows": lambda found: WINDOWS,
}


def ecosystem_of_host(found: System) -> str | None:
    """The ecosystem of the packages of a host's own distribution; None: unknown."""
    ecosystem = _BY_PLATFORM.get(found.platform.lower())
    # Some agents report 22.04.4 as 22 and 04.4.
    return None if ecosystem is None else ecosystem(found._replace(minor=found.minor.partition(".")[0]))


def _suse(found: System) -> str:
    pack = found.minor or (re.search(r"SP\s?(\d+)", found.version) or ["", ""])[1]
    return f"SUSE:{found.major} SP{pack}" if pack and pack != "0" else f"SUSE:{found.major}"
