"""The store of alerts: the cost of indexing, questions to a node, and how soon an alert is found."""

import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from bench.generated_alerts import alert_lines
from bench.harness import Aim, Figure, quantile
from bench.nodes import Bench, say
from secmon.alerts.indexer import AlertIndexer
from secmon.alerts.question import AlertQuestion
from secmon.alerts.silences import Silence, Silences, create_silence, in_milliseconds
from secmon.alerts.store import AlertStore
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.logfile.log_series import LogSeries, alert_series
from secmon.common.paths import Paths
from secmon.daemons.alert_index import IDLE_SECONDS
from secmon.security.store.security_store import SecurityStore

ALERTS = 1_000_000
_DAY = timedelta(days=1)


def measure(bench: Bench) -> list[Figure]:
    """Questions to a million alerts of a day, in one process; ``BENCH_DIR`` is where they are stored."""
    count, rounds = (20_000, 5) if bench.quick else (ALERTS, 40)
    folder = Path(tempfile.mkdtemp(prefix="alerts-", dir=os.environ.get("BENCH_DIR")))
    try:
        node = Node(folder, count)
        return [*node.index(), *node.ask(rounds), *node.visible(5 if bench.quick else 30), *silences(folder)]
    finally:
        shutil.rmtree(folder)


def silences(folder: Path) -> Iterator[Figure]:
    """What the judgement of an alert costs an output, by the number of silences in force that do not cover it."""
    path, count = folder / "security.db", 2000
    now = SystemClock().now()
    alerts = [msgspec.json.decode(line) for line in alert_lines(count, start=now, rate=count)]
    with closing(SecurityStore(path)) as store, closing(Silences(path)) as judge:
        made = 0
        for number in (0, 1, 10, 100):
            with store.write() as tx:
                while made < number:
                    made += 1
                    create_silence(tx, _silence(made, now), SystemClock())
            judge.refresh()
            started = time.process_time()
            for alert in alerts:
                judge.covering(alert)
            used = (time.process_time() - started) / count
            yield Figure(name=f"judge an alert, {number} silences", value=used * 1e6, unit="us")


def _silence(number: int, now: datetime) -> Silence:
    since = in_milliseconds(now - _DAY)
    question = AlertQuestion(q=f"agent.name~db-{number};rule.level<3", values={"rule.groups": ("sshd", "syslog")})
    return Silence(0, question, None, since, since + 10 * 86_400_000, "bench", "a test", 0)


class Node:
    """Files of alerts of the last day, and the store that they are indexed in."""

    def __init__(self, folder: Path, count: int) -> None:
        self._count, self._clock, self._counters = count, SystemClock(), Counters()
        paths = Paths(folder)
        self._series: LogSeries = alert_series(paths)
        self._now = self._clock.now()
        self._file = self._series.part(self._now.astimezone().date())
        self._series.make_folders(self._file)
        paths.alert_store.parent.mkdir()
        say(f"generating {count} alerts")
        with self._file.open("wb") as file:
            file.writelines(alert_lines(count, start=self._now - _DAY, rate=count / _DAY.total_seconds()))
        os.link(self._file, self._series.current)
        self._indexer = AlertIndexer(paths.alert_store, self._series, clock=self._clock, counters=self._counters)
        self._store = AlertStore(paths.alert_store, self._clock)

    def index(self) -> Iterator[Figure]:
        """Index all of them."""
        say("indexing them")
        started, processor = time.perf_counter(), time.process_time()
        while self._counters.snapshot().get("alerts.indexed", 0) < self._count:
            self._indexer.step()
        seconds, used = time.perf_counter() - started, time.process_time() - processor
        yield Figure(name="index an alert, processor time", value=used / self._count * 1e6, unit="us")
        yield Figure(name="  alerts a second", value=self._count / seconds, unit="/s")
        yield Figure(name="  on the disk, an alert", value=self._store.size() / self._count, unit="B")

    def ask(self, rounds: int) -> Iterator[Figure]:
        """Every question with other values each time."""
        numbers = random.Random(1)
        day = int((self._now - _DAY).timestamp() * 1000)
        store = self._store

        def rule() -> AlertQuestion:
            return AlertQuestion(values={"rule.id": (str(5000 + numbers.randrange(400)),)})

        def condition() -> AlertQuestion:
            return AlertQuestion(q=f"agent.name=web-{numbers.randrange(1, 2000)};rule.level>5")

        def words() -> AlertQuestion:
            return AlertQuestion(search=f'"invalid user {numbers.choice(("root", "deploy", "oracle"))}" ssh2')

        questions: dict[str, tuple[Callable[[], object], float]] = {
            "newest 50 of a rule": (lambda: store.newest(rule(), 50), 50),
            "newest 50 of a condition": (lambda: store.newest(condition(), 50), 50),
            "newest 50 with words": (lambda: store.newest(words(), 50), 200),
            "count by rule.id": (lambda: store.count_values(AlertQuestion(since=day), "rule.id"), 300),
            "count by data.srcip, 60,000 values": (lambda: store.count_values(AlertQuestion(), "data.srcip"), 300),
            "count by hour": (lambda: store.histogram(AlertQuestion(since=day), 3_600_000), 300),
        }
        for name, (ask, aim) in questions.items():
            ask()
            taken = [_timed(ask) * 1000 for _ in range(rounds)]
            for label, value in (("median", statistics.median(taken)), ("p99", quantile(taken, 0.99))):
                yield Figure(
                    name=f"{name} of {self._count}, {label}", value=value, unit="ms", samples=rounds,
                    aim=Aim(bound=aim, of="value"),
                )  # fmt: skip

    def visible(self, rounds: int) -> Iterator[Figure]:
        """From the write of an alert until a question finds it, with the pauses of the daemon."""
        say("writing single alerts")
        stopping = threading.Event()
        worker = threading.Thread(target=self._follow, args=(stopping,))
        worker.start()
        taken = []
        for line in alert_lines(rounds, start=self._clock.now(), seed=7):
            time.sleep(random.uniform(0.1, 1.5))
            before = self._store.last_sequence()
            started = time.perf_counter()
            with self._file.open("ab") as file:
                file.write(line)
            while self._store.last_sequence() == before:
                time.sleep(0.01)
            taken.append(time.perf_counter() - started)
        stopping.set()
        worker.join()
        for label, value in (("median", statistics.median(taken)), ("p99", quantile(taken, 0.99))):
            aim = Aim(bound=2, of="value")
            yield Figure(name=f"alert to found, {label}", value=value, unit="s", samples=rounds, aim=aim)

    def _follow(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            if not self._indexer.step():
                stopping.wait(IDLE_SECONDS)


def _timed(ask: Callable[[], object]) -> float:
    started = time.perf_counter()
    ask()
    return time.perf_counter() - started
