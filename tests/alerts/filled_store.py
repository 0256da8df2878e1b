"""A store of alerts that is filled without files and without a daemon."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from secmon.alerts.alert_reader import Line, Position
from secmon.alerts.generations import current
from secmon.alerts.writer import AlertWriter, StoreLimits
from tests.outputs.alert_files import NOON


def fill(folder: Path, alerts: Sequence[dict[str, Any]], *, partition: int = 2) -> None:
    """Store alerts, some in each partition."""
    writer = AlertWriter(current(folder), StoreLimits(partition_alerts=partition))
    offset = 0
    for one in alerts:
        writer.turn_over(NOON.date())
        line = msgspec.json.encode(one)
        writer.add([Line(line, offset)], NOON.date())
        offset += len(line) + 1
        writer.commit(Position(day=NOON.date(), offset=offset))
    writer.close()
