"""A node whose hosts are compared with advisories: journals, stores, reader and scanner, which can be killed."""

import io
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from secmon.agents.registry.store import AgentStore
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.inventory.decoded_event import decode_event
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import vulnerabilities
from secmon.inventory.store import InventoryStore
from secmon.inventory.vulnerabilities.readiness import PATIENCE_SECONDS, SETTLING_SECONDS
from secmon.inventory.vulnerabilities.scanner import VulnerabilityScanner
from secmon.journal.journal import JournalReader, JournalWriter
from secmon.knowledge.vulnerabilities.feed_files import records_in_file
from secmon.knowledge.vulnerabilities.importing import import_feed
from secmon.knowledge.vulnerabilities.source import AdvisorySource
from tests.agents.rows import agent, put
from tests.knowledge.vulnerabilities.records import encoded
from tests.manual_clock import ManualClock

DEBIAN = {
    "os_name": "Debian GNU/Linux", "os_version": "12 (bookworm)", "os_major": "12", "os_platform": "debian",
    "release": "6.1.0-18-amd64", "architecture": "x86_64",
}  # fmt: skip


def package(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "architecture": "amd64", "format": "deb", **more}


class ScannedNode:
    """Agents 4 (web-4) and 5 (web-5) report to it."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder)
        for each in ("etc", "var/db", "queue/db"):
            (folder / each).mkdir(parents=True)
        self.clock = ManualClock()
        self.messages = JournalWriter(self.paths.events, self.clock, limit=1 << 24, segment=1 << 20)
        self.events = JournalWriter(self.paths.inventory_events, self.clock, limit=1 << 24, segment=1 << 20)
        self.seen = JournalReader(self.paths.inventory_events, "analysisd")
        self.store = InventoryStore(self.paths.inventory_db)
        self.registry = AgentStore(self.paths.agents_db)
        self.counters = Counters()
        with self.registry.write() as connection:
            put(
                connection,
                [agent(each, name=f"web-{each}", connection_status="active", node_name="n1") for each in (4, 5)],
            )
        self.start()

    def start(self) -> None:
        self.reader = InventoryReader(
            self.store, self.paths.events, self.events, HANDLERS, clock=self.clock, counters=self.counters
        )
        self.source = AdvisorySource(self.paths)
        self.scanner = VulnerabilityScanner(
            self.store, self.registry, self.source, node="n1", clock=self.clock, counters=self.counters,
            kept=timedelta(days=30),
        )  # fmt: skip

    def restart(self) -> None:
        self.reader.close()
        self.source.close()
        self.start()

    def close(self) -> None:
        self.reader.close()
        self.source.close()
        self.seen.close()
        self.messages.close()
        self.events.close()
        self.store.close()
        self.registry.close()

    def advise(self, *records: Mapping[str, Any], **options: Any) -> None:
        """Put records in force."""
        import_feed(self.paths, records_in_file(io.BytesIO(encoded(*records))), **options)

    def report(self, kind: str, data: Mapping[str, Any], *, operation: str = "INSERTED", number: int = 4) -> None:
        """A delta of an agent."""
        body = {"type": f"dbsync_{kind}", "operation": operation, "data": {"checksum": "c", **data}}
        head = f"d:[{number:03}] (web-{number}) any->syscollector:"
        self.messages.append([head.encode() + json.dumps(body).encode()])

    def install(self, *packages: Mapping[str, Any], number: int = 4) -> None:
        for each in packages:
            self.report("packages", each, number=number)

    def remove(self, *packages: Mapping[str, Any], number: int = 4) -> None:
        for each in packages:
            self.report("packages", each, operation="DELETED", number=number)

    def work(self, *, patience: float = PATIENCE_SECONDS) -> None:
        """Store what was reported, and scan once that counts as complete."""
        self.store_messages()
        self.clock.advance(max(patience, SETTLING_SECONDS))
        self.scan()

    def store_messages(self) -> None:
        while self.reader.step()[0]:
            pass

    def scan(self) -> None:
        """As the daemon does."""
        while self.reader.settled and self.scanner.step():
            self.reader.events_wait = True
            self.store_messages()
        self.store_messages()

    def rows(self, *columns: str, number: int = 4) -> list[Any]:
        """Values of the rows of an agent; of one column alone, or tuples."""
        table = vulnerabilities
        wanted = select(*(table.c[name] for name in columns)).where(table.c.agent_id == number)
        with self.store.read() as connection:
            found = sorted(tuple(row) for row in connection.execute(wanted.order_by(table.c.cve, table.c.reference)))
        return [row[0] if len(columns) == 1 else row for row in found]

    def reported(self) -> list[dict[str, Any]]:
        """The objects of the events about vulnerabilities since the last call."""
        found = [decode_event(event) for block in self.seen.read(limit=1 << 22) for event in block.events]
        return [json.loads(event.log) for event in found if event.location.endswith("->vulnerability-detector")]

    def alerts(self) -> list[tuple[str, str, str]]:
        """Status, CVE and package of these events, without first scans."""
        found = [each["vulnerability"] for each in self.reported() if "vulnerability" in each]
        return [(each["status"], each["cve"], each["package"]["name"]) for each in found]
