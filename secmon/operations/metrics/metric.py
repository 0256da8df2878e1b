"""One metric: what it is called, what it means, and which counter of a daemon it shows."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

PREFIX = "secmon_"


class Metric(NamedTuple):
    """``name`` without ``secmon_`` and without the ``_total`` of counters; it ends in the unit.

    ``source``: dotted name of a counter; empty for figures that the node reads itself. ``*`` in it matches any text,
    which becomes the value of the one label whose value here is ``*``. Other ``labels`` have fixed values. ``help``
    is given with the first metric of a name. ``factor``: from the counter's unit to that of the metric.
    """

    kind: Literal["counter", "gauge"]
    source: str
    name: str
    help: str
    labels: Mapping[str, str]
    factor: float = 1.0

    @property
    def full_name(self) -> str:
        """As Prometheus shows it."""
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"


def counter(source: str, name: str, help: str = "", *, factor: float = 1.0, **labels: str) -> Metric:
    """A metric that only grows, until its daemon restarts."""
    return Metric("counter", source, name, help, labels, factor)


def gauge(source: str, name: str, help: str = "", *, factor: float = 1.0, **labels: str) -> Metric:
    """A metric of the moment."""
    return Metric("gauge", source, name, help, labels, factor)
