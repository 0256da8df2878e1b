"""A store of record with the row of the term, for tests."""

from sqlalchemy import Engine, text

from secmon.cluster.leadership import terms
from secmon.cluster.leadership.candidates import Candidate
from secmon.cluster.record.engine import RecordAddress, open_record
from secmon.cluster.record.schema import metadata
from tests.waiting import LIMIT_SECONDS

A, B, C = (Candidate(name, f"10.0.0.{number}", 1516) for number, name in enumerate("abc", 1))


def set_up(record: RecordAddress) -> Engine:
    """Tables and first row in an empty database; an engine for tests to look and change with."""
    engine = open_record(record, connections=0, statement_seconds=LIMIT_SECONDS)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS secmon"))
        metadata.create_all(connection)
        terms.create_row(connection)
    return engine


def run_out(engine: Engine) -> None:
    """Let the current term be one that was renewed long ago."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE secmon.term SET renewed = renewed - interval '1 minute'"))
