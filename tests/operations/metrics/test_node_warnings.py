"""Which figures of a node are warnings, and what they say."""

from datetime import UTC, datetime, timedelta

import pytest

from secmon.operations.metrics.daemon_counters import Sample, samples
from secmon.operations.metrics.node_warnings import node_warnings
from secmon.operations.metrics.tables.journals import journal_metrics
from secmon.operations.metrics.tables.node import DAEMON_UP, DISK_FREE, DISK_SIZE, EXPIRY, LAG_BYTES, RESTARTS

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
GIGA = 1 << 30


def at(**ago: float) -> float:
    return (NOW - timedelta(**ago)).timestamp()


def disk(folder: str, *, free: float, size: float = 100 * GIGA) -> list[Sample]:
    return [Sample(DISK_SIZE, {"folder": folder}, size), Sample(DISK_FREE, {"folder": folder}, free)]


def restarted(times: int, started: float) -> list[Sample]:
    apid = {"daemon": "secmon-apid"}
    return [Sample(RESTARTS, apid, times), *samples("secmon-apid", {"process": {"started": started}})]


FULL = journal_metrics("link.journal", "agents")[3]
WELL = [
    Sample(DAEMON_UP, {"daemon": "secmon-apid"}, 1),
    *restarted(0, at(minutes=5)),
    *restarted(4, at(days=3)),
    *disk("logs", free=50 * GIGA),
    *disk("nothing", free=0, size=0),
    Sample(EXPIRY, {"certificate": "api"}, at(days=-30)),
    Sample(FULL, {"journal": "agents"}, 0),
    Sample(LAG_BYTES, {"journal": "agents", "reader": "analysisd"}, 1 << 20),
    *samples("secmon-csyslogd", {"syslog": {"failures": 3, "unread_bytes": 0}}),
    *samples("secmon-maild", {"mail": {"failures": 0, "unread_bytes": 500}}),
    *samples("secmon-analysisd", {"analysis": {"waiting": 0}, "ruleset": {"current": 1}}),
    *samples("secmon-db", {"alerts": {"unread_bytes": 100}}),
    *samples("secmon-leaderd", {"leadership": {"record_up": 1}}),
    *samples("secmon-apid", {"process": {"open_fds": 10, "max_fds": 1000}}),
]


def test_a_node_that_is_well_has_none() -> None:
    assert node_warnings(WELL, NOW) == []
    assert node_warnings([], NOW) == []


@pytest.mark.parametrize(
    ("found", "kind", "message"),
    [
        ([Sample(DAEMON_UP, {"daemon": "secmon-db"}, 0)], "daemon", "secmon-db does not answer"),
        (restarted(1, at(hours=1)), "restart", "secmon-apid has restarted once since the node was started"),
        (restarted(7, at(hours=1)), "restart", "secmon-apid has restarted 7 times since the node was started"),
        ([*disk("etc", free=5 * GIGA), *disk("logs", free=5 * GIGA)], "disk", "The disk of etc, logs has 5% left"),
        ([Sample(EXPIRY, {"certificate": "api"}, at(days=-3))], "certificate", "The certificate of api expires soon"),
        ([Sample(EXPIRY, {"certificate": "api"}, at(days=3))], "certificate", "The certificate of api has expired"),
        ([Sample(FULL, {"journal": "agents"}, 1)], "journal", "The journal of events (agents) is full"),
        (
            [Sample(LAG_BYTES, {"journal": "agents", "reader": "analysisd"}, 1 << 26)],
            "journal", "analysisd is behind in the journal agents",
        ),
        (
            [*samples("secmon-csyslogd", {"syslog": {"failures": 3, "unread_bytes": 9}})],
            "output", "Alerts wait for the output syslog",
        ),
        ([*samples("secmon-analysisd", {"analysis": {"waiting": 1}})], "analysis", "The analysis waits"),
        (
            [*samples("secmon-analysisd", {"ruleset": {"current": 0}})],
            "ruleset", "The stored rules are not those in force",
        ),
        ([*samples("secmon-db", {"alerts": {"unread_bytes": 1 << 25}})], "alerts", "Alerts are not searchable yet"),
        (
            [*samples("secmon-leaderd", {"leadership": {"record_up": 0}})],
            "record", "The store of record does not answer",
        ),
        (
            [*samples("secmon-apid", {"process": {"open_fds": 900, "max_fds": 1000}})],
            "descriptors", "secmon-apid has 900 of at most 1000 open files",
        ),
    ],
)  # fmt: skip
def test_what_needs_attention(found: list[Sample], kind: str, message: str) -> None:
    (warning,) = node_warnings(found, NOW)
    assert (warning.kind, warning.message) == (kind, message)
    assert warning.remediation


def test_times_are_those_that_the_message_means() -> None:
    found = [*restarted(1, at(hours=1)), Sample(EXPIRY, {"certificate": "node"}, at(days=-1))]
    assert [one.time for one in node_warnings(found, NOW)] == ["2026-11-22T11:00:00Z", "2026-11-23T12:00:00Z"]
