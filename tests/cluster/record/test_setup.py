"""The tables of the store of record."""

import pytest
from sqlalchemy import inspect, text

from secmon.cluster.leadership.terms import look
from secmon.cluster.record.schema import candidates, term
from secmon.cluster.record.setup import check_tables, upgrade_tables
from secmon.common.errors import SecmonError
from tests.cluster.record.kit import FIRST, Record

VERSION_1 = """
ALTER TABLE secmon.term DROP COLUMN protocol, DROP COLUMN min_protocol;
DROP TABLE secmon.candidates;
CREATE TABLE secmon.candidates (node text PRIMARY KEY, address text, port integer, seen timestamptz);
UPDATE secmon.release SET version = 1
"""


def test_tables_of_an_earlier_release_are_upgraded(store: Record) -> None:
    with store.engine.begin() as connection:
        for statement in VERSION_1.split(";"):
            connection.execute(text(statement))
        with pytest.raises(SecmonError, match="upgrade all nodes, then run: secmon store migrate"):
            check_tables(connection)
        assert upgrade_tables(connection)
        check_tables(connection)
        assert not upgrade_tables(connection)
        for table in (term, candidates):
            found = {column["name"] for column in inspect(connection).get_columns(str(table.name), schema="secmon")}
            assert found == set(table.c.keys())
        row = look(connection)
    assert row is not None
    assert (row.term, row.protocol) == (FIRST, 0)


def test_tables_of_a_later_release_are_refused(store: Record) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE secmon.release SET version = 99"))
        with pytest.raises(SecmonError, match="upgrade this node"):
            upgrade_tables(connection)
