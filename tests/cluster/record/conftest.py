"""A store of record with its first term, and the first master's stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.cluster.record.engine import RecordAddress
from tests.cluster.record.kit import Record, RecordedNode, recorded_node


@pytest.fixture
def store(record: RecordAddress) -> Iterator[Record]:
    opened = Record(record)
    yield opened
    opened.close()


@pytest.fixture
def node(store: Record, tmp_path: Path) -> Iterator[RecordedNode]:
    with recorded_node(tmp_path / "one", store) as opened:
        yield opened
