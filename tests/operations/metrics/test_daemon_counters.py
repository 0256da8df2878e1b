"""Counters of daemons become samples."""

import pytest

from secmon.operations.metrics.daemon_counters import Sample, entry, flat, samples, unknown


def shown(found: list[Sample]) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Values by metric and labels."""
    by_name: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for metric, labels, value in found:
        by_name.setdefault(metric.name, {})[tuple(sorted(labels.items()))] = value
    return by_name


def test_numbers_of_a_tree_by_dotted_names() -> None:
    tree = {"a": {"b": 1, "c": {"d": 2.5}}, "e": [3, {"f": 4}], "g": "text", "h": None, "i": True}
    assert dict(flat(tree)) == {"a.b": 1, "a.c.d": 2.5, "e.0": 3, "e.1.f": 4, "i": 1}


def test_a_star_becomes_the_label() -> None:
    found = shown(list(samples("secmon-clusterd", {"replicas": {"files": {"behind": {"node.eu-1": 3}}}})))
    assert found["replica_behind_revisions"] == {(("node", "node.eu-1"), ("set", "files")): 3}


def test_an_exact_entry_goes_before_a_star() -> None:
    sent = {"metrics": {"messages": {"sent_breakdown": {"discarded": 1, "ack": 2}}}}
    found = shown(list(samples("secmon-remoted", sent)))
    assert found["link_messages_undelivered"] == {(): 1}
    assert found["link_messages_sent"] == {(("kind", "ack"),): 2}


def test_units_are_converted() -> None:
    found = shown(list(samples("secmon-db", {"inventory.transaction_us": 2_500_000})))
    assert found["inventory_transaction_seconds"][()] == pytest.approx(2.5)


def test_names_that_daemons_share_have_the_daemon_as_a_label() -> None:
    counters = {"task_restarts": {"run files": 1}, "operations.storage_errors": 2}
    found = shown(list(samples("secmon-apid", counters)))
    assert found["task_restarts"] == {(("daemon", "secmon-apid"), ("task", "run files")): 1}
    assert found["operation_storage_errors"] == {(("daemon", "secmon-apid"),): 2}


def test_the_same_name_in_two_trees_is_two_metrics() -> None:
    received = {"metrics": {"bytes": {"received": 7}}}
    assert shown(list(samples("secmon-remoted", received)))["link_received_bytes"] == {(): 7}
    assert shown(list(samples("secmon-analysisd", received)))["analysis_received_bytes"] == {(): 7}


def test_a_counter_that_was_never_counted_is_zero() -> None:
    """Otherwise Prometheus would miss its first increase."""
    found = shown(list(samples("secmon-apid", {"api.refused.rate": 4})))
    assert found["api_requests_refused"] == {
        (("reason", "rate"),): 4,
        (("reason", "blocked_address"),): 0,
        (("reason", "framing"),): 0,
    }
    assert "api_requests_in_flight" not in found, "gauges are unknown until they are set"


def test_counters_without_an_entry_are_named() -> None:
    counters = {"api.requests": 1, "api.invented": 2, "uptime": 3, "metrics": {"queues": {"fts": {"size": 0}}}}
    assert unknown("secmon-apid", counters) == ["api.invented"]
    assert entry("secmon-apid", "leadership.term") is None
