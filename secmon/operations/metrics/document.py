"""The list of metrics in ``docs/metrics.md``, made from the tables.

``python -m secmon.operations.metrics.document FILE`` renews it in FILE.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from secmon.cluster.call_times import new_call_times
from secmon.operations.metrics.tables.all import HELP, METRICS, OF_SEVERAL_DAEMONS

HEADING = "## All metrics\n"
_INTRODUCTION = """
Made from `secmon/operations/metrics/tables/` by `make docs`; do not edit. Times are in seconds, sizes in bytes.
Counters end in `_total` and begin at 0 when their daemon starts. What a node does not have is absent.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
"""


def metrics_list() -> str:
    """The heading and the table, by name."""
    return HEADING + _INTRODUCTION + "".join(sorted(set(_rows())))


def _rows() -> Iterator[str]:
    for metric in METRICS:
        daemon = ["daemon"] if metric in OF_SEVERAL_DAEMONS else []
        yield _row(metric.full_name, metric.kind, [*daemon, *sorted(metric.labels)], HELP[metric.name])
    for family in new_call_times().collect():
        yield _row(family.name, family.type, ["operation", "status", "le"], family.documentation)


def _row(name: str, kind: str, labels: Sequence[str], about: str) -> str:
    return f"| `{name}` | {kind} | {', '.join(labels)} | {about} |\n"


def main() -> None:
    """See the module's docstring."""
    file = Path(sys.argv[1])
    file.write_text(file.read_text("utf-8").partition(HEADING)[0] + metrics_list(), "utf-8")


if __name__ == "__main__":
    main()
