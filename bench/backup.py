"""Backup and restoration of a master with 100,000 agents, and how long its writers wait for a backup."""

import os
import random
import tempfile
import threading
import time
import zlib
from pathlib import Path

from pyrage import x25519
from sqlalchemy import insert

from bench.agents_read import AGENTS, fill
from bench.harness import Figure
from bench.nodes import Bench, say
from secmon.agents.registry.store import AgentStore
from secmon.backup.create import create_backup
from secmon.backup.encryption import public_key_seal, read_head
from secmon.backup.restore import restore_backup
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.daemons.install import install
from secmon.inventory.schema import packages
from secmon.inventory.store import InventoryStore

PACKAGES = 20
"""Of each agent."""


def measure(bench: Bench) -> list[Figure]:
    """One backup and one restoration. The floor: the same files through zlib, level 3, into one durable file."""
    agents = 2_000 if bench.quick else AGENTS
    with tempfile.TemporaryDirectory(prefix="secmon-bench-", dir=os.environ.get("SECMON_BENCH_FOLDER")) as folder:
        return _measure(Path(folder), agents)


def _measure(folder: Path, agents: int) -> list[Figure]:
    paths, clock, key = Paths(folder / "node"), SystemClock(), x25519.Identity.generate()
    install(paths, cluster=None)
    say(f"putting {agents} agents of {PACKAGES} packages into the stores")
    store = AgentStore(paths.agents_db, durable=False)
    fill(store, agents)
    store.close()
    _fill_inventory(paths, agents)
    plain = [path for path in paths.root.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in plain)
    say("backup")
    waits = _Waits(paths)
    started = time.perf_counter()
    with waits:
        create_backup(
            paths,
            folder / "file",
            public_key_seal(str(key.to_public())),
            without=(),
            clock=clock,
            progress=lambda *_: None,
        )
    saved = time.perf_counter() - started
    say("restoration")
    started = time.perf_counter()
    with open(folder / "file", "rb") as archive:
        read_head(archive)
        restore_backup(archive, key, Paths(folder / "r"), replace=False, clock=clock, progress=lambda *_: None)
    restored = time.perf_counter() - started
    floor = _floor(plain, folder / "floor")
    shown = f"{agents:,} agents, {size / 1e6:.0f} MB"
    return [
        Figure(name=f"backup of {shown}, read back", value=saved, unit="s", floor=floor, floor_is="zlib, one file"),
        Figure(name="  restoration, checked", value=restored, unit="s"),
        Figure(name="  size of the file", value=(folder / "file").stat().st_size / 1e6, unit="MB"),
        Figure(name="  longest write meanwhile", value=waits.longest * 1000, unit="ms", samples=waits.count),
    ]


def _fill_inventory(paths: Paths, agents: int) -> None:
    columns = ("name", "version", "vendor", "description")
    chosen = random.Random(1)
    store = InventoryStore(paths.inventory_db)
    for first in range(0, agents, 1000):
        rows = [
            {
                "agent_id": agent,
                "item_id": f"{chosen.getrandbits(160):040x}",
                "scan_id": 1,
                "checksum": f"{chosen.getrandbits(160):040x}",
                **{column: f"{column}-{chosen.randrange(5000)}" for column in columns},
            }
            for agent in range(first + 1, first + 1001)
            for _ in range(PACKAGES)
        ]
        with store.write() as connection:
            connection.execute(insert(packages), rows)
    store.close()


class _Waits:
    """A writer of the registry, whose transactions are timed."""

    def __init__(self, paths: Paths) -> None:
        self._store = AgentStore(paths.agents_db)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.longest, self.count = 0.0, 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._store.close()

    def _write(self) -> None:
        while not self._stop.wait(0.01):
            started = time.perf_counter()
            with self._store.write():
                pass
            self.longest = max(self.longest, time.perf_counter() - started)
            self.count += 1


def _floor(files: list[Path], target: Path) -> float:
    started = time.perf_counter()
    packed = zlib.compressobj(3)
    with open(target, "wb") as out:
        for file in files:
            with open(file, "rb") as source:
                while block := source.read(1 << 20):
                    out.write(packed.compress(block))
        out.write(packed.flush())
        os.fsync(out.fileno())
    return time.perf_counter() - started
