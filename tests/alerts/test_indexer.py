"""From files of alerts into the store: every alert once, whatever happens in between."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from secmon.alerts import generations, writer
from secmon.alerts.indexer import AlertIndexer
from secmon.alerts.question import AlertQuestion
from secmon.alerts.reindexing import AlreadyReindexing, reindex
from secmon.alerts.store import AlertStore
from secmon.alerts.writer import StoreFault, StoreLimits
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from tests.filelimit import file_size_limit
from tests.manual_clock import ManualClock
from tests.outputs.alert_files import NOON, AlertFiles
from tests.waiting import LIMIT_SECONDS, wait_until

DAY = timedelta(days=1)
SMALL = StoreLimits(partition_alerts=40)


class Node:
    """Files of alerts, and what is needed to index and read them."""

    def __init__(self, root: Path) -> None:
        self.folder = Paths(root).alert_store
        self.folder.parent.mkdir(parents=True)
        self.files = AlertFiles(root, max_bytes=20_000)
        self.clock, self.counters = ManualClock(), Counters()
        self.clock.set_wall(NOON.astimezone())
        self.store = AlertStore(self.folder, self.clock)
        self._indexers: list[AlertIndexer] = []

    def indexer(self, limits: StoreLimits = SMALL) -> AlertIndexer:
        made = AlertIndexer(self.folder, self.files.series, clock=self.clock, counters=self.counters, limits=limits)
        self._indexers.append(made)
        return made

    def catch_up(self, indexer: AlertIndexer) -> None:
        """Index all that is there, and commit it."""
        while indexer.step():
            pass
        self.clock.advance(2)
        indexer.step()

    def numbers(self) -> list[int]:
        """Of all alerts in the store, in the order in which they were stored."""
        found, _ = self.store.stored_after(AlertQuestion(), 0, 100_000)
        return [int(one.line.split(b'"id":"1700000000.')[1].split(b'"')[0]) for one in found]

    def close(self) -> None:
        self.files.close()
        for one in self._indexers:
            one.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def test_days_sizes_and_compression_lose_and_repeat_nothing(node: Node) -> None:
    indexer = node.indexer()
    for day in range(3):
        for start in range(0, 60, 20):
            node.files.number(*range(100 * day + start, 100 * day + start + 20))
            if start == 20:
                node.catch_up(indexer)
        node.files.now += DAY
        node.clock.set_wall(node.files.now.astimezone())
        node.files.compress()
    node.catch_up(node.indexer())
    assert node.numbers() == [100 * day + one for day in range(3) for one in range(60)]
    names = generations.partitions(generations.current(node.folder))
    assert len({name.day for name in names}) == 3
    assert len(names) > 3


def test_what_is_too_old_or_too_much_is_deleted_as_a_whole(node: Node) -> None:
    for day in range(4):
        node.files.number(*range(100 * day, 100 * day + 10))
        node.files.now += DAY
    node.clock.set_wall((node.files.now - DAY).astimezone())
    node.catch_up(node.indexer(StoreLimits(keep_days=2)))
    assert node.numbers()[0] == 100, "the first file is older than what is kept"
    node.clock.advance(DAY.total_seconds())
    node.catch_up(node.indexer(StoreLimits(keep_days=2)))
    assert node.numbers()[0] == 200
    node.clock.advance(100)
    node.catch_up(node.indexer(StoreLimits(keep_days=2, max_bytes=1)))
    assert node.numbers() == list(range(300, 310)), "the newest is kept"


def test_lines_that_are_no_alerts_cost_themselves_only(node: Node) -> None:
    node.files.number(1)
    with node.files.series.current.open("ab") as file:
        file.write(
            b'{"timestamp":"2026-11-22T12:00:00.123+0000","ru\n\n[1]\n{"timestamp": 5}\n' + b"[" * 100_000 + b"\n"
        )
    node.files.number(2)
    indexer = node.indexer()
    node.catch_up(indexer)
    assert node.numbers() == [1, 2]
    assert node.counters.snapshot()["alerts.malformed_lines"] == 5


def test_a_full_disk_delays(node: Node) -> None:
    indexer = node.indexer()
    node.files.number(*range(30))
    node.catch_up(indexer)
    node.files.number(*range(30, 60))
    faults = []  # kept: a traceback holds what was open, and must not keep it locked
    with file_size_limit(100):
        for _ in range(3):
            try:
                node.catch_up(indexer)
            except (OSError, StoreFault) as fault:
                faults.append(fault)
    assert faults
    assert not any("Lock" in str(one) for one in faults)
    node.catch_up(indexer)
    assert node.numbers() == list(range(60))


def test_a_damaged_partition_is_read_again_from_the_files(node: Node) -> None:
    indexer = node.indexer()
    node.files.number(*range(100))
    node.catch_up(indexer)
    indexer.close()
    newest = generations.partitions(generations.current(node.folder))[-1]
    meta = generations.current(node.folder) / str(newest) / "meta.json"
    meta.write_bytes(b"{")
    node.catch_up(node.indexer())
    assert node.numbers() == list(range(100))
    assert node.counters.snapshot()["alerts.damaged_partitions"] == 1


def test_the_store_is_built_again_while_it_is_written(node: Node) -> None:
    indexer = node.indexer()
    for day in range(3):
        node.files.number(*range(100 * day, 100 * day + 50))
        node.catch_up(indexer)
        node.files.now += DAY
        node.clock.set_wall(node.files.now.astimezone())
        node.files.compress()
    shown: list[tuple[int, int]] = []
    before = generations.current(node.folder)

    def progress(done: int, total: int) -> None:
        shown.append((done, total))
        node.files.number(900)
        node.catch_up(indexer)

    number, malformed = reindex(node.folder, node.files.series, SMALL, node.clock, progress)
    assert (number, malformed) == (150, 0)
    assert shown[-1][0] == shown[-1][1] > 0
    built = generations.current(node.folder)
    assert built != before
    node.catch_up(indexer)
    assert node.numbers() == [100 * day + one for day in range(3) for one in range(50)] + [900]
    assert [path.name for path in node.folder.iterdir() if path.is_dir()] == [built.name]


def test_a_store_that_is_replaced_is_not_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    indexer, merged = node.indexer(), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(writer, "_finish", lambda sealed: merged.wait(2 * LIMIT_SECONDS))
        node.files.number(*range(50))
        node.catch_up(indexer)
        node.files.number(*range(50, 60))  # the first partition is full
        node.catch_up(indexer)
    reindex(node.folder, node.files.series, SMALL, node.clock, lambda done, total: None)
    node.files.number(60)
    begun = threading.Thread(target=node.catch_up, args=(indexer,), daemon=True)
    begun.start()
    begun.join(LIMIT_SECONDS)
    assert not begun.is_alive()
    merged.set()
    assert node.numbers() == list(range(61))


def test_two_commands_do_not_build_the_store_at_once(node: Node) -> None:
    node.files.number(1)

    def again(done: int, total: int) -> None:
        with pytest.raises(AlreadyReindexing):
            reindex(node.folder, node.files.series, SMALL, node.clock, lambda done, total: None)

    assert reindex(node.folder, node.files.series, SMALL, node.clock, again) == (1, 0)
    node.catch_up(node.indexer())
    assert node.numbers() == [1]


_INDEX = """
import sys, time
from pathlib import Path
from secmon.alerts.indexer import AlertIndexer
from secmon.alerts.writer import StoreLimits
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.logfile.log_series import alert_series
from secmon.common.paths import Paths
import secmon.alerts.indexer
secmon.alerts.indexer.COMMIT_SECONDS = 0.01
paths = Paths(Path(sys.argv[1]))
limits = StoreLimits(partition_alerts=500, keep_days=0)
indexer = AlertIndexer(paths.alert_store, alert_series(paths), clock=SystemClock(), counters=Counters(), limits=limits)
while True:
    indexer.step()
    time.sleep(0.002)
"""


def _has_grown(store: AlertStore, before: int) -> bool:
    return store.last_sequence() > before


def test_kills_at_any_moment_neither_lose_nor_repeat_an_alert(tmp_path: Path, node: Node) -> None:
    numbers = random.Random(5)
    written = 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", _INDEX, os.fspath(tmp_path)])
        try:
            before = node.store.last_sequence()
            for _ in range(numbers.randrange(5, 30)):
                node.files.number(*range(written, written + 50))
                written += 50
            wait_until(partial(_has_grown, node.store, before))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    node.clock.set_wall(SystemClock().now())
    node.catch_up(node.indexer(StoreLimits(keep_days=0)))
    assert node.numbers() == list(range(written))
