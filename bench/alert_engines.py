"""``python -m bench.alert_engines [COUNT]``: three engines for the store of alerts, on the same alerts.

It needs ``pip install duckdb``, which secmon does not use. The result is in docs/libraries.md.
"""

import os
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from bench.generated_alerts import alert_lines

_BATCH = 5000
_WORDS = "invalid user deploy"


def with_tantivy(folder: Path, lines: list[bytes]) -> dict[str, Callable[[], object]]:
    """Every field as a term ``name=value``; the words of the alert with their positions; the line as it is."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("order", indexed=True, fast=True)
    builder.add_bytes_field("source", stored=True)
    builder.add_text_field("terms", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", tokenizer_name="default", index_option="position")
    schema = builder.build()
    index = tantivy.Index(schema, str(folder))
    writer = index.writer(50_000_000, 1)
    for at, line in enumerate(lines):
        fields = list(_fields("", msgspec.json.decode(line)))
        document = tantivy.Document()
        document.add_unsigned("order", at)
        document.add_bytes("source", line)
        for name, value in fields:
            if name != "full_log":
                document.add_text("terms", f"{name}={value}")
        document.add_text("words", " ".join(value for _, value in fields))
        writer.add_document(document)
        if at % _BATCH == _BATCH - 1:
            writer.commit()
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher, query = index.searcher(), tantivy.Query
    everything = query.all_query()

    def newest(condition: tantivy.Query) -> int:
        found = searcher.search(condition, 50, order_by_field="order").hits
        return len([bytes(searcher.doc(address)["source"][0]) for _, address in found])

    def top(name: str) -> int:
        return len(searcher.terms_with_prefix("terms", f"{name}=", filter_query=everything))

    return {
        "newest 50 of a rule": lambda: newest(query.term_query(schema, "terms", "rule.id=5005")),
        "newest 50 with 3 words": lambda: newest(query.phrase_query(schema, "words", list(_WORDS.split()))),
        "top rule.id": lambda: top("rule.id"),
        "top data.srcip": lambda: top("data.srcip"),
        "histogram": lambda: searcher.aggregate(
            everything, {"time": {"histogram": {"field": "order", "interval": len(lines) / 24}}}
        ),
    }


def with_sqlite(folder: Path, lines: list[bytes]) -> dict[str, Callable[[], object]]:
    """Columns for the common fields, FTS5 for the words; other fields are read out of the line."""
    database = sqlite3.connect(folder / "alerts.db", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE alerts (id INTEGER PRIMARY KEY, rule TEXT, agent TEXT, level INTEGER, source TEXT);"
        "CREATE INDEX by_rule ON alerts (rule, id);"
        "CREATE VIRTUAL TABLE words USING fts5(body, content='');"
    )
    for start in range(0, len(lines), _BATCH):
        rows, words = [], []
        for at, line in enumerate(lines[start : start + _BATCH], start):
            alert = msgspec.json.decode(line)
            rows.append((at, alert["rule"]["id"], alert["agent"]["id"], alert["rule"]["level"], line.decode()))
            words.append((at, " ".join(value for _, value in _fields("", alert))))
        database.execute("BEGIN")
        database.executemany("INSERT INTO alerts VALUES (?,?,?,?,?)", rows)
        database.executemany("INSERT INTO words (rowid, body) VALUES (?,?)", words)
        database.execute("COMMIT")

    def all_of(statement: str, *values: object) -> int:
        return len(database.execute(statement, values).fetchall())

    matching = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT 50"
    match = f"SELECT source FROM alerts WHERE id IN ({matching})"
    return {
        "newest 50 of a rule": lambda: all_of(
            "SELECT source FROM alerts WHERE rule=? ORDER BY id DESC LIMIT 50", "5005"
        ),
        "newest 50 with 3 words": lambda: all_of(match, f'"{_WORDS}"'),
        "top rule.id": lambda: all_of("SELECT rule, count(*) FROM alerts GROUP BY rule"),
        "top data.srcip": lambda: all_of(
            "SELECT json_extract(source, '$.data.srcip') AS ip, count(*) FROM alerts GROUP BY ip"
        ),
        "histogram": lambda: all_of("SELECT id / ?, count(*) FROM alerts GROUP BY 1", max(1, len(lines) // 24)),
    }


def with_duckdb(folder: Path, lines: list[bytes]) -> dict[str, Callable[[], object]]:
    """Columns for the common fields; other fields, and words, are read out of the line."""
    import duckdb

    database = duckdb.connect(str(folder / "alerts.duckdb"))
    database.execute("SET threads=1")
    database.execute("CREATE TABLE alerts (id BIGINT, rule TEXT, agent TEXT, level INTEGER, source TEXT)")
    for start in range(0, len(lines), _BATCH):
        batch = folder / "batch.json"  # the appender of rows is slower than its reader of files
        with batch.open("wb") as file:
            for at, line in enumerate(lines[start : start + _BATCH], start):
                alert = msgspec.json.decode(line)
                rule, text = alert["rule"], line.decode()
                row = {
                    "id": at,
                    "rule": rule["id"],
                    "agent": alert["agent"]["id"],
                    "level": rule["level"],
                    "source": text,
                }
                file.write(msgspec.json.encode(row) + b"\n")
        database.execute(f"INSERT INTO alerts SELECT id, rule, agent, level, source FROM read_json('{batch}')")
        batch.unlink()
    database.execute("CHECKPOINT")

    def all_of(statement: str) -> int:
        return len(database.execute(statement).fetchall())

    newest = "SELECT source FROM alerts WHERE {} ORDER BY id DESC LIMIT 50"
    return {
        "newest 50 of a rule": lambda: all_of(newest.format("rule = '5005'")),
        "newest 50 with 3 words": lambda: all_of(newest.format(f"contains(source, '{_WORDS}')")),
        "top rule.id": lambda: all_of("SELECT rule, count(*) FROM alerts GROUP BY rule"),
        "top data.srcip": lambda: all_of(
            "SELECT json_extract_string(source, '$.data.srcip') AS ip, count(*) FROM alerts GROUP BY ip"
        ),
        "histogram": lambda: all_of(f"SELECT id // {max(1, len(lines) // 24)}, count(*) FROM alerts GROUP BY 1"),
    }


def _fields(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(name, inner)
    else:
        yield name, str(value)


def main() -> None:
    """One process for each engine, so that memory is its own."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    for engine in (with_tantivy, with_sqlite, with_duckdb):
        if os.fork() == 0:
            _measure(engine, count)
            os._exit(0)
        os.wait()


def _measure(engine: Callable[[Path, list[bytes]], dict[str, Callable[[], object]]], count: int) -> None:
    lines = list(alert_lines(count, start=datetime(2026, 1, 1, tzinfo=UTC)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    folder = Path(tempfile.mkdtemp(prefix="alert-engines-", dir=os.environ.get("BENCH_DIR")))
    try:
        started, processor = time.perf_counter(), time.process_time()
        questions = engine(folder, lines)
        wall, used = time.perf_counter() - started, time.process_time() - processor
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{engine.__name__}: {used / count * 1e6:.0f} us of a core ({wall / count * 1e6:.0f} us) and", end=" ")
        print(f"{size / count:.0f} bytes an alert, {grown:.0f} MB of memory", flush=True)
        for name, ask in questions.items():
            times = []
            for _ in range(5):
                started = time.perf_counter()
                ask()
                times.append(time.perf_counter() - started)
            print(f"    {name}: {sorted(times)[2] * 1000:.1f} ms", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
