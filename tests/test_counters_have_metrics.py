"""Every counter that code writes has a metric, or a reason why it has none."""

import re
from collections.abc import Iterator

from secmon.operations.metrics.daemon_counters import NOT_SHOWN, entry, is_left_out
from secmon.operations.metrics.tables.all import HELP, METRICS, OF_DAEMON, OF_NODE, OF_SEVERAL_DAEMONS
from tests.folders import REPOSITORY
from tests.offenders import Offenders

SOURCES = REPOSITORY / "secmon"
WRITES = re.compile(r"""(?:counters|accepting|\b_?add|WriteTrouble|self\._count)(?:\.add|\.set)?\(\s*(f?"[^\n]*)""")
NAMES = re.compile(r'(f?)"((?:[\w{}.()\']|\.)+\.[\w{}.()\']+)"')
OUTPUT = "syslog-server"
PREFIXES = ("", "link.", "analysis.outputs.")
"""Of trees that hold the counters of a part of a daemon."""


def written() -> Iterator[tuple[str, str]]:
    """Names of counters as the code writes them, and where; ``*`` for what is put in."""
    for file in SOURCES.rglob("*.py"):
        for call in WRITES.finditer(file.read_text()):
            for is_format, name in NAMES.findall(call[1].partition(",")[0]):
                yield re.sub(r"{[^}]*}", "*", name) if is_format else name, str(file.relative_to(SOURCES))


def of_outputs() -> Iterator[tuple[str, str]]:
    """Names that outputs count by, each for itself."""
    for file in (SOURCES / "outputs").rglob("*.py"):
        for name in re.findall(r'self\.(?:count|show)\("(\w+)"', file.read_text()):
            yield f"{OUTPUT}.{name}", str(file.relative_to(SOURCES))


def has_metric(name: str) -> bool:
    """Whether a daemon's table, or the reasons, know the counter; one with a ``*`` if they know any such."""
    if "*" in name:
        pattern = re.compile(re.escape(name).replace(r"\*", ".+"))
        sources = [each.source for each in METRICS] + list(NOT_SHOWN)
        return any(
            pattern.fullmatch(each.replace("*", "x").removeprefix(prefix)) for each in sources for prefix in PREFIXES
        )
    return any(
        is_left_out(prefix + name) or is_named(daemon, prefix + name) for daemon in OF_DAEMON for prefix in PREFIXES
    )


def is_named(daemon: str, name: str) -> bool:
    """Whether an entry says more of the name than its end; outputs have names that only a configuration knows."""
    found = entry(daemon, name)
    return found is not None and (name.startswith(OUTPUT) or not found[0].source.startswith("*."))


def test_every_counter_has_a_metric_or_a_reason() -> None:
    names = {*written(), *of_outputs()}
    assert len(names) > 80, "the pattern finds them"
    with Offenders() as offenders:
        for name, file in sorted(names):
            with offenders.row(f"{file}: {name}"):
                assert has_metric(name), "add it to secmon/operations/metrics/tables, then make docs"


def test_a_counter_has_one_metric() -> None:
    with Offenders() as offenders:
        for daemon, metrics in OF_DAEMON.items():
            sources = [each.source for each in (*metrics, *OF_SEVERAL_DAEMONS)]
            with offenders.row(daemon):
                assert sorted(set(sources)) == sorted(sources)


def test_metrics_are_named_and_explained_as_prometheus_wants() -> None:
    with Offenders() as offenders:
        for metric in METRICS:
            with offenders.row(metric.name):
                assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
                assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_info_info"))
                assert HELP[metric.name].endswith(".")
                assert {each.kind for each in METRICS if each.name == metric.name} == {metric.kind}
                labels = {frozenset(each.labels) for each in METRICS if each.name == metric.name}
                assert labels == {frozenset(metric.labels)}
                assert ("*" in metric.source) == ("*" in metric.labels.values())
                assert len({each.help for each in METRICS if each.name == metric.name and each.help}) == 1


def test_figures_of_the_node_have_no_counter() -> None:
    assert [metric for metric in OF_NODE if metric.source] == []
    assert [metric for metrics in OF_DAEMON.values() for metric in metrics if not metric.source] == []
