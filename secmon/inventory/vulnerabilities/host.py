"""What of a host is compared with advisories: its packages, and on Windows the system (agent-data.md 9.4, 9.5)."""

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select

from secmon.inventory.changes import Changes
from secmon.inventory.schema import hotfixes, operating_systems, packages
from secmon.knowledge.vulnerabilities.ecosystems import WINDOWS, System, ecosystem_of_host, kind_of, package_name
from secmon.knowledge.vulnerabilities.versions.parts import MAX_VERSION

LANGUAGES = {"pypi": "PyPI", "npm": "npm"}
"""Ecosystems of packages of any system, by their format."""
_SOURCE = re.compile(r"(\S+)(?: \(([^)\s]+)\))?")
_SIGNED_KERNEL = re.compile(r"linux-signed(?:-(?:amd64|arm64|i386)$)?")
_KERNEL_DEB = re.compile(r"linux-(?:image|modules|headers)(?:-extra|-unsigned|-signed)*-(\d.*)")
_KERNEL_RPM = re.compile(r"kernel(?:-core|-modules|-modules-core|-modules-extra|-devel|-default|-rt|-uek)?")
_OWN_VENDORS = {"Red Hat": re.compile("red hat|centos", re.IGNORECASE)}
_MOST_WORDS = 8

_SYSTEM = select(operating_systems).where(operating_systems.c.agent_id == bindparam("agent")).limit(1)
_HOTFIXES = select(hotfixes.c.hotfix).where(hotfixes.c.agent_id == bindparam("agent"))


class _Package(NamedTuple):
    """A row of ``packages``; empty texts for null."""

    item_id: str
    name: str
    version: str
    architecture: str
    format: str
    source: str
    vendor: str


_PACKAGES = select(*(func.coalesce(packages.c[name], "") for name in _Package._fields)).where(
    packages.c.agent_id == bindparam("agent")
)


class Product(NamedTuple):
    """Something installed. ``names`` and ``version``: those that advisories of ``ecosystem`` use."""

    reference: str
    type: str
    name: str
    version: str
    architecture: str
    ecosystem: str
    names: tuple[str, ...]
    compared: str


class Host:
    """The system of an agent's host, as it is stored now."""

    def __init__(self, agent: int, changes: Changes) -> None:
        self._agent, self._changes = agent, changes
        found = changes.execute(operating_systems, _SYSTEM, {"agent": agent}).mappings().one_or_none()
        self._system: dict[str, Any] = {name: value for name, value in (found or {}).items() if value is not None}
        self._distribution = ecosystem_of_host(
            System(*(str(self._system.get(f"os_{each}", "")) for each in System._fields))
        )
        wanted = self._distribution == WINDOWS
        rows = changes.execute(hotfixes, _HOTFIXES, {"agent": agent}).scalars() if wanted else ()
        self.hotfixes = frozenset(rows)

    @property
    def ecosystems(self) -> tuple[str, ...]:
        """Those that its packages may be of."""
        own = () if self._distribution is None else (self._distribution,)
        return (*own, *LANGUAGES.values())

    def products(self, items: Collection[str] | None = None) -> Iterator[Product]:
        """The packages with these ``item_id``, or all, as far as advisories can be about them."""
        wanted, values = _PACKAGES, {"agent": self._agent}
        if items is not None:
            wanted = wanted.where(packages.c.item_id.in_(items))
        for row in self._changes.execute(packages, wanted, values):
            if (product := self._product(_Package._make(row))) is not None:
                yield product

    def system(self) -> Iterator[Product]:
        """The system itself, where advisories are about it."""
        version = self._system.get("os_build") or self._system.get("os_version")
        if self._distribution != WINDOWS or not version:
            return
        name, shown = str(self._system["os_name"]), self._system.get("os_display_version")
        yield Product(
            reference=str(self._system.get("reference") or ""), type="OS", name=name, version=str(version),
            architecture=str(self._system.get("architecture") or ""), ecosystem=WINDOWS,
            names=tuple(_windows_names(name, str(shown) if shown else None)), compared=str(version),
        )  # fmt: skip

    def _product(self, row: _Package) -> Product | None:
        ecosystem = LANGUAGES.get(row.format) or self._distribution
        named = 0 < len(row.name) <= MAX_VERSION and 0 < len(row.version) <= MAX_VERSION
        if ecosystem is None or not named or not self._is_compared(row, ecosystem):
            return None
        name, compared = row.name, row.version
        if kind_of(ecosystem).by_source and (source := _SOURCE.fullmatch(row.source.strip())):
            name, compared = source[1], source[2] or row.version
            if signed := _SIGNED_KERNEL.match(name):  # advisories name the source of the code, not of the signatures
                name, compared = "linux" + name[signed.end() :], row.version
        return Product(
            row.item_id, "PACKAGE", row.name, row.version, row.architecture[:MAX_VERSION], ecosystem,
            (package_name(ecosystem, name),), compared,
        )  # fmt: skip

    def _is_compared(self, row: _Package, ecosystem: str) -> bool:
        """Not packages of another system or vendor, and of kernels that one only that runs."""
        if row.format != kind_of(ecosystem).order:
            return False
        vendor = _OWN_VENDORS.get(ecosystem.partition(":")[0])
        if vendor is not None and row.vendor.strip() and not vendor.search(row.vendor):
            return False
        running = str(self._system.get("release", ""))
        return not (running and _is_other_kernel(row, running))


def _is_other_kernel(row: _Package, running: str) -> bool:
    if row.format == "deb":
        found = _KERNEL_DEB.fullmatch(row.name)
        return found is not None and found[1] != running
    version = row.version.rpartition(":")[2]
    return row.format == "rpm" and _KERNEL_RPM.fullmatch(row.name) is not None and not running.startswith(version)


def _windows_names(name: str, shown: str | None) -> Iterator[str]:
    """``Microsoft Windows Server 2019 Standard``: the name in words, from its whole down to the two first."""
    words = name.lower().removeprefix("microsoft ").split()[:_MOST_WORDS]
    for length in range(len(words), 1, -1):
        found = " ".join(words[:length])
        if shown:
            yield f"{found} {shown.lower()}"
        yield found
