"""Products compared with the advisories in force (agent-data.md 9.5)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from secmon.inventory.vulnerabilities.host import Host, Product
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, Hit
from secmon.knowledge.vulnerabilities.ecosystems import kind_of
from secmon.knowledge.vulnerabilities.records import SEVERITIES, Advisory, Rating
from secmon.knowledge.vulnerabilities.source import AdvisorySource
from secmon.knowledge.vulnerabilities.versions import version_key

MAX_FINDINGS = 50_000
"""Of one host; further ones are left out."""
MAX_VERSIONS = 100
"""Versions of one package on a host that are compared: hosts have a few, and an agent can name as many as it wants."""
_KNOWN_FLAWS = 30_000
_KNOWN_VERSIONS = 100_000
"""What is remembered, some 60 MB: hosts have much in common."""


class Flaw(NamedTuple):
    """A version of a package is vulnerable, says the record ``advisory``. ``references``: a JSON array of addresses."""

    cve: str
    condition: str
    rating: Rating
    hotfixes: Sequence[str]
    references: str
    published: str
    updated: str
    advisory: str
    summary: str


class Finding(NamedTuple):
    """A product of a host is vulnerable."""

    product: Product
    flaw: Flaw


class Matcher:
    """Finds what is wrong with products. For one thread."""

    def __init__(self, source: AdvisorySource) -> None:
        self.source = source
        self._known: dict[tuple[str, tuple[str, ...], str], tuple[Flaw, ...]] = {}
        self._flaws = 0

    def forget(self) -> None:
        """To be called when other advisories are in force."""
        self._known.clear()
        self._flaws = 0

    def findings(self, host: Host, products: Iterable[Product]) -> Iterator[Finding]:
        """Of ``products`` of ``host``: at most one for each reference and CVE. Raises FeedError."""
        versions: Counter[str] = Counter()
        number = 0
        for product in products:
            versions[product.name] += 1
            if versions[product.name] > MAX_VERSIONS:
                continue
            for flaw in self._flaws_of(product):
                if flaw.hotfixes and not host.hotfixes.isdisjoint(flaw.hotfixes):
                    continue
                number += 1
                if number > MAX_FINDINGS:
                    return
                yield Finding(product, flaw)

    def _flaws_of(self, product: Product) -> tuple[Flaw, ...]:
        wanted = product.ecosystem, product.names, product.compared
        found = self._known.get(wanted)
        if found is None:
            file = self.source.get(product.ecosystem)
            found = () if file is None else tuple(_look_up(file, product))
            if self._flaws > _KNOWN_FLAWS or len(self._known) > _KNOWN_VERSIONS:
                self.forget()
            self._known[wanted] = found
            self._flaws += len(found)
        return found


def _look_up(file: AdvisoryFile, product: Product) -> Iterable[Flaw]:
    """Each CVE once, from the record that rates it highest."""
    key = version_key(kind_of(product.ecosystem).order, product.compared)
    best: dict[str, Flaw] = {}
    for name in product.names:
        for hit in file.hits(name, key):
            advisory = file.advisory(hit.record)
            for cve in advisory.cves:
                if cve not in best or _rank(hit.rating) > _rank(best[cve].rating):
                    best[cve] = _flaw(cve, hit, advisory)
    return best.values()


def _flaw(cve: str, hit: Hit, advisory: Advisory) -> Flaw:
    references, dates = msgspec.json.encode(advisory.references).decode(), (advisory.published, advisory.updated)
    return Flaw(cve, hit.condition, hit.rating, hit.hotfixes, references, *dates, advisory.id, advisory.title)


def _rank(rating: Rating) -> tuple[int, float]:
    return SEVERITIES.index(rating.severity), rating.cvss3
