"""What agents synchronize: rows stored in a first synchronization, and checks of a large table."""

import gc
import hashlib
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import fim_entries, packages
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalWriter

AGENTS = 1000
_BLOCK = 500
"""Messages in a block of the journal: about what the link writes at once."""
_BATCH = 2000
"""Rows of a bare transaction: about as many as the reader's batches have."""
_JOURNAL_BYTES = 1 << 32
_CHECKS = 5


def measure(bench: Bench) -> list[Figure]:
    """Rows a second with the processor time of one core, and milliseconds of a global check."""
    return [*_first_synchronization(20 if bench.quick else 100), *_checks(10_000 if bench.quick else 100_000)]


class Reader:
    """A reader with its journals in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.store = InventoryStore(folder / "inventory.db")
        self._messages = JournalWriter(folder / "messages", clock, limit=_JOURNAL_BYTES, segment=1 << 26)
        self._events = JournalWriter(folder / "events", clock, limit=_JOURNAL_BYTES, segment=1 << 26)
        self._reader = InventoryReader(
            self.store, folder / "messages", self._events, HANDLERS, clock=clock, counters=Counters()
        )

    def send(self, messages: Sequence[bytes]) -> None:
        for start in range(0, len(messages), _BLOCK):
            self._messages.append(messages[start : start + _BLOCK])

    def work(self) -> tuple[float, list[str]]:
        """Store all that is there: seconds of processor time, and the answers."""
        answers: list[str] = []
        begun = time.process_time()
        while True:
            some, found = self._reader.step()
            answers += [text for _, text in found]
            if not some:
                return time.process_time() - begun, answers

    def close(self) -> None:
        self._reader.close()
        self.store.close()
        self._messages.close()
        self._events.close()


def _first_synchronization(rows: int) -> Iterator[Figure]:
    """``rows`` files and as many packages of each agent, in the order in which 1,000 agents send them."""
    say(f"{2 * rows * AGENTS} rows of {AGENTS} agents")
    folder = Path(tempfile.mkdtemp(prefix="secmon-bench-"))
    messages = [state(agent, number) for number in range(2 * rows) for agent in range(1, AGENTS + 1)]
    try:
        with closing(Reader(folder)) as reader:
            reader.send(messages)
            gc.collect()
            gc.freeze()  # as daemons do
            taken, _ = reader.work()
            stored = {table: _rows(reader.store, table) for table in (fim_entries, packages)}
        floor = _bare(folder / "bare", stored)
    finally:
        shutil.rmtree(folder)
    number = sum(map(len, stored.values()))
    assert number == len(messages), f"{number} of {len(messages)} rows were stored"
    yield Figure(
        name="first synchronization of 1,000 agents, rows stored",
        value=number / taken,
        unit="rows/s",
        samples=number,
        floor=number / floor,
        floor_is="batched INSERTs of the same rows",
        aim=Aim(bound=0.5, least=True),
    )


def _bare(folder: Path, stored: dict[Table, list[tuple[Any, ...]]]) -> float:
    """Seconds of processor time for insertions of the same rows, in the order of a first synchronization."""
    folder.mkdir()
    store = InventoryStore(folder / "inventory.db")
    with store.read():
        pass
    store.close()
    batches = []
    for table, rows in stored.items():
        of_agents = [list(group) for _, group in groupby(rows, key=itemgetter(0))]
        rows = [row for turn in zip(*of_agents, strict=True) for row in turn]
        statement = f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
        batches += [(statement, rows[start : start + _BATCH]) for start in range(0, len(rows), _BATCH)]
    with closing(sqlite3.connect(folder / "inventory.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        begun = time.process_time()
        for statement, batch in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, batch)
            connection.execute("COMMIT")
        return time.process_time() - begun


def _rows(store: InventoryStore, table: Table) -> list[tuple[Any, ...]]:
    with store.read() as connection:
        return [tuple(row) for row in connection.execute(select(table))]


def _checks(rows: int) -> Iterator[Figure]:
    """A global check of one large table: read, and taken from the record of the last one."""
    say(f"checks of {rows} rows")
    folder = Path(tempfile.mkdtemp(prefix="secmon-bench-"))
    try:
        with closing(Reader(folder)) as reader:
            states = [state(1, 2 * number) for number in range(rows)]
            reader.send(states)
            reader.work()
            with reader.store.read() as connection:
                found = select(fim_entries.c.full_path, fim_entries.c.checksum).order_by(fim_entries.c.full_path)
                keys = connection.execute(found).all()
            checksum = hashlib.sha1("".join(row.checksum for row in keys).encode()).hexdigest()
            data = {"begin": keys[0].full_path, "end": keys[-1].full_path, "checksum": checksum, "id": 1}
            message = _message(1, "fim_file", {"component": "fim_file", "type": "integrity_check_global", "data": data})
            cold: list[float] = []
            warm: list[float] = []
            for _ in range(_CHECKS):
                reader.send([states[0]])
                reader.work()
                for taken in (cold, warm):
                    reader.send([message])
                    seconds, answers = reader.work()
                    assert answers == [], "the rows differ"
                    taken.append(seconds * 1000)
            floor = _bare_check(folder / "inventory.db")
    finally:
        shutil.rmtree(folder)
    name = f"global check of {rows} rows"
    yield median_figure(name, cold, "ms", floor=floor, floor_is="bare SQL and SHA-1", aim=Aim(bound=2))
    yield median_figure("  of rows that have not changed since", warm, "ms", aim=Aim(bound=5, of="value"))


def _bare_check(file: Path) -> float:
    """Milliseconds of processor time to read the checksums of all files in order, and to hash them."""
    with closing(sqlite3.connect(file)) as connection:
        begun = time.process_time()
        for _ in range(_CHECKS):
            found = connection.execute("SELECT checksum FROM fim_entries ORDER BY agent_id, type, full_path")
            hashlib.sha1("".join(checksum for (checksum,) in found).encode()).digest()
        return (time.process_time() - begun) / _CHECKS * 1000


def state(agent: int, number: int) -> bytes:
    """A file if ``number`` is even, else a package."""
    checksum = f"{agent:08x}{number:032x}"
    attributes: dict[str, Any]
    if number % 2:
        component, index, timestamp = "syscollector_packages", checksum, 0
        attributes = {
            "architecture": "amd64", "checksum": checksum, "description": "Sample package of the archive",
            "format": "deb", "groups": "utils", "install_time": " ", "item_id": checksum, "location": " ",
            "multiarch": "foreign", "name": f"demo-tool-{number}", "priority": "optional",
            "scan_time": "2024/05/02 09:00:00", "size": 512, "source": "demo (2.4.1)",
            "vendor": "Example Maintainers <pkg@example.org>", "version": "2.4.1-3",
        }  # fmt: skip
    else:
        component, index, timestamp = "fim_file", f"/usr/share/doc/demo/{number:06}.txt", 1700000000
        attributes = {
            "attributes": "", "checksum": checksum, "gid": "0", "group_name": "root", "hash_md5": checksum[:32],
            "hash_sha1": checksum, "hash_sha256": checksum + checksum[:24], "inode": number,
            "mtime": 1700000000 + number, "perm": "rw-r--r--", "size": number, "type": "file", "uid": "0",
            "user_name": "root",
        }  # fmt: skip
    data = {"attributes": attributes, "index": index, "timestamp": timestamp}
    return _message(agent, component, {"component": component, "data": data, "type": "state"})


def _message(agent: int, source: str, body: dict[str, Any]) -> bytes:
    return f"5:[{agent:03}] (host-{agent}) any->{source}:{json.dumps(body, separators=(',', ':'))}".encode()
