"""Hosts compared with advisories: a full match of a fleet, one changed package, and the import of a feed."""

import gc
import json
import shutil
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import psutil

from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.inventory.changes import Changes
from secmon.inventory.message import AgentMessage
from secmon.inventory.schema import operating_systems, packages
from secmon.inventory.store import InventoryStore
from secmon.inventory.system.deltas import store_inventory
from secmon.inventory.vulnerabilities.scanner import VulnerabilityScanner
from secmon.knowledge.vulnerabilities.importing import import_feed
from secmon.knowledge.vulnerabilities.source import AdvisorySource
from secmon.knowledge.vulnerabilities.versions import version_key

PACKAGES = 500
"""Packages of a host."""
_NAMES, _USED, _VERSIONS = 20_000, 3_000, 5
"""Packages that advisories are about, those that hosts have, and versions of one package in the fleet."""
_AFFECTING = 0.02
"""Share of the advisories of a package that affect what is installed."""
_CHANGES = 50
_SYSTEM = {"os_name": "Debian GNU/Linux", "os_major": "12", "os_platform": "debian", "release": "6.1.0-18-amd64"}
_HITS = "SELECT record FROM affected WHERE name = ? AND since <= ? AND (until IS NULL OR until > ?)"


def measure(bench: Bench) -> list[Figure]:
    """Seconds of the processor time of one core for everything, and milliseconds for one package."""
    hosts, advisories = (100, 30_000) if bench.quick else (1000, 300_000)
    folder = Path(tempfile.mkdtemp(prefix="secmon-bench-"))
    try:
        return list(_measure(folder, hosts, advisories))
    finally:
        shutil.rmtree(folder)


class _LaterClock(SystemClock):
    """A clock that is an hour ahead: rows count as complete at once."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


class Fleet:
    """The stores of a node with ``hosts``, each with its own choice of packages."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.paths = Paths(folder)
        (folder / "var/db").mkdir(parents=True)
        self.store, registry = InventoryStore(self.paths.inventory_db), AgentStore(self.paths.agents_db)
        self._random = Random(1)
        with registry.write() as connection:
            row = {
                "register_ip": "any",
                "internal_key": "k",
                "date_add": 0,
                "revision": 0,
                "connection_status": "active",
            }
            connection.execute(
                agents.insert(), [{"id": each, "name": f"a{each}", **row} for each in range(1, hosts + 1)]
            )
        for host in range(1, hosts + 1):
            self._fill(host)
        clock = _LaterClock()
        self.source = AdvisorySource(self.paths)
        self.scanner = VulnerabilityScanner(
            self.store, registry, self.source, node=None, clock=clock, counters=Counters(), kept=timedelta(days=30)
        )

    def work(self) -> float:
        """Seconds of processor time until no host is due; events of findings are thrown away."""
        begun = time.process_time()
        while self.scanner.step():
            with self.store.write() as connection:
                connection.exec_driver_sql("DELETE FROM pending_events")
        return time.process_time() - begun

    def change(self, host: int) -> None:
        """A package of ``host`` gets another version."""
        number = self._random.randrange(_USED)
        data = {"name": f"pkg{number}", "version": "0.9-1", "format": "deb", "checksum": "c", "architecture": "amd64"}
        body = json.dumps({"type": "dbsync_packages", "operation": "INSERTED", "data": data})
        now = SystemClock().now().timestamp()
        message = AgentMessage("d", host, f"a{host}", f"(a{host}) any->syscollector", body, now)
        with self.store.write() as connection:
            changes = Changes(connection)
            changes.begin(message)
            store_inventory(message, changes)
            changes.flush_all()

    def _fill(self, host: int) -> None:
        with self.store.write() as connection:
            changes = Changes(connection)
            changes.begin(AgentMessage("d", host, "", "", "", 0.0))
            common = {"agent_id": host, "scan_id": 0, "checksum": "c"}
            changes.save(operating_systems, {**common, **_SYSTEM})
            for number in self._random.sample(range(_USED), PACKAGES):
                version = f"1.{self._random.randrange(_VERSIONS)}-1"
                row = {"name": f"pkg{number}", "version": version, "format": "deb", "architecture": "amd64"}
                changes.save(packages, {**common, **row, "item_id": f"{number:040}"})
            changes.flush_all()


def _measure(folder: Path, hosts: int, advisories: int) -> Iterator[Figure]:
    fleet = Fleet(folder, hosts)
    say(f"{advisories} advisories")
    begun = time.process_time()
    import_feed(fleet.paths, _feed(advisories))
    taken = time.process_time() - begun
    [file] = fleet.paths.advisories.iterdir()
    yield Figure(name="import of a feed", value=advisories / taken, unit="records/s", samples=advisories)
    yield Figure(name="  its file", value=file.stat().st_size / advisories, unit="bytes/record")
    say(f"{hosts} hosts of {PACKAGES} packages")
    gc.collect()
    gc.freeze()  # as daemons do
    process = psutil.Process()
    before = process.memory_info().rss
    seconds = fleet.work()
    grown = (process.memory_info().rss - before) / (1 << 20)
    with fleet.store.read() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM vulnerabilities").scalar_one()
    assert found > hosts, f"only {found} findings"
    yield Figure(
        name=f"full match of {hosts} hosts of {PACKAGES} packages",
        value=seconds,
        unit="s",
        samples=found,
        floor=_bare(fleet, file, folder / "bare.db"),
        floor_is="bare SQL: packages read, each version looked up once, findings inserted",
        aim=Aim(bound=60, of="value"),
    )
    yield Figure(name="  memory that it takes", value=grown, unit="MB")
    samples = []
    for number in range(_CHANGES):
        fleet.change(1 + number % hosts)
        fleet.scanner._next_look = 0.0
        samples.append(fleet.work() * 1000)
    yield median_figure("one changed package", samples, "ms", aim=Aim(bound=10, of="value"))


def _feed(number: int) -> Iterator[tuple[str, bytes]]:
    random = Random(2)
    for each in range(number):
        name, cve = f"pkg{random.randrange(_NAMES)}", f"CVE-2099-{each:06}"
        minor = random.randrange(1, _VERSIONS + 1) if random.random() < _AFFECTING else 0
        events = [{"introduced": "0"}, {"fixed": f"1.{minor}-1" if minor else f"0.{random.randrange(1, 9)}-1"}]
        ranges = [{"type": "ECOSYSTEM", "events": events}]
        record = {
            "id": f"DEBIAN-{cve}", "modified": "2024-05-01T00:00:00Z", "published": "2024-04-01T00:00:00Z",
            "upstream": [cve], "details": "What an attacker can do. " * 20,
            "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}],
            "affected": [{"package": {"ecosystem": "Debian:12", "name": name}, "ranges": ranges}],
            "references": [{"type": "ADVISORY", "url": f"https://security.example.org/tracker/{cve}"}],
        }  # fmt: skip
        yield cve, json.dumps(record).encode()


def _bare(fleet: Fleet, file: Path, target: Path) -> float:
    """Seconds of processor time for the same with bare SQL."""
    known: dict[tuple[str, str], list[int]] = defaultdict(list)
    with (
        closing(sqlite3.connect(fleet.paths.inventory_db)) as inventory,
        closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as advisories,
        closing(sqlite3.connect(target, isolation_level=None)) as result,
    ):
        result.execute(
            "CREATE TABLE found (agent INTEGER, item TEXT, record INTEGER, PRIMARY KEY (agent, item, record))"
        )
        begun = time.process_time()
        result.execute("BEGIN")
        question = "SELECT agent_id, item_id, name, version FROM packages WHERE agent_id = ?"
        for (agent,) in inventory.execute("SELECT DISTINCT agent_id FROM operating_systems").fetchall():
            rows = []
            for _, item, name, version in inventory.execute(question, (agent,)):
                if (name, version) not in known:
                    key = version_key("deb", version)
                    known[name, version] = [record for (record,) in advisories.execute(_HITS, (name, key, key))]
                rows += [(agent, item, record) for record in known[name, version]]
            result.executemany("INSERT INTO found VALUES (?, ?, ?)", rows)
        result.execute("COMMIT")
        return time.process_time() - begun
