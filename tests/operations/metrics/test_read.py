"""``GET /metrics``: everything that a node knows of itself, as the library's own parser reads it."""

from collections.abc import Mapping
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.common.self_signed import self_signed
from secmon.journal.journal import JournalReader, JournalWriter
from secmon.operations.metrics.tables.all import METRICS
from tests.openmetrics import parsed
from tests.operations.world import FixedControl, World

pytestmark = pytest.mark.anyio

Figures = dict[str, dict[str, float]]
"""Values by metric, and by the values of its labels."""


async def scrape(world: World, user: str = "admin", *, at: str | None = None) -> Figures:
    raw = await world.raw("GET /metrics", user, **({"at": at} if at else {}))
    assert raw.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    found: Figures = {}
    for family in parsed(raw.body.decode()).values():
        for each in family.samples:
            labels = ",".join(value for _, value in sorted(each.labels.items()))
            found.setdefault(each.name, {})[labels] = each.value
    return found


@pytest.mark.parametrize(("node", "role"), [("alpha", "master"), ("beta", "worker")])
async def test_each_node_answers_for_itself(cluster: World, node: str, role: str) -> None:
    assert [one.split(",")[1:3] for one in (await scrape(cluster, at=node))["secmon_node_info"]] == [[node, role]]


async def test_every_sample_has_an_entry(alone: World) -> None:
    known = {metric.full_name for metric in METRICS}
    found = await scrape(alone)
    assert found.keys() <= known
    assert {"secmon_daemon_up", "secmon_filesystem_available_bytes", "secmon_store_bytes"} <= found.keys()


async def test_counters_of_daemons(alone: World) -> None:
    control = alone.nodes["manager"].control
    control.restarts = 3
    control.counted = {"secmon-apid": {"api.requests": 4, "api.invented": 1}}
    found = await scrape(alone)
    assert found["secmon_api_requests_total"] == {"": 4}
    assert found["secmon_daemon_restarts_total"]["secmon-apid"] == 3
    assert found["secmon_unknown_counters"]["secmon-apid"] == 1
    assert found["secmon_daemon_up"]["secmon-apid"] == 1
    assert found["secmon_log_rotations_failed_total"] == {"secmon-supervisor": 2}
    assert found["secmon_process_open_fds"] == {"secmon-supervisor": 5}
    assert found["secmon_task_restarts_total"] == {"secmon-supervisor,run files": 1}


async def test_a_daemon_that_does_not_answer_costs_its_own_figures(alone: World) -> None:
    alone.nodes["manager"].control.counted = {"secmon-apid": {"api.requests": 4}}
    found = await scrape(alone)
    assert found["secmon_daemon_up"]["secmon-db"] == 0
    assert found["secmon_api_requests_total"] == {"": 4}


class NoSupervisor(FixedControl):
    """A node whose supervisor has ended."""

    async def supervisor_status(self) -> Mapping[str, Any]:
        raise SecmonError(1901)


async def test_without_a_supervisor_the_node_still_answers(alone: World) -> None:
    alone.nodes["manager"].node.services.control = NoSupervisor()
    found = await scrape(alone)
    assert found["secmon_daemon_up"] == {"secmon-supervisor": 0}
    assert found["secmon_filesystem_size_bytes"]["queue"] > 0


async def test_lag_of_the_readers_of_a_journal(alone: World) -> None:
    running = alone.nodes["manager"]
    journal = JournalWriter(running.node.paths.events, alone.clock, limit=1 << 20, segment=1 << 16)
    JournalReader(running.node.paths.events, "analysisd").commit(0)
    journal.append([b"x" * 50] * 10)
    JournalReader(running.node.paths.events, "inventory").commit(10)
    running.control.counted = {"secmon-remoted": {"link": {"journal": journal.counters()}}}
    found = await scrape(alone)
    assert found["secmon_journal_events_total"]["agents"] == 10
    assert found["secmon_journal_lag_events"] == {"agents,analysisd": 10, "agents,inventory": 0}
    assert found["secmon_journal_lag_bytes"] == {"agents,analysisd": journal.size, "agents,inventory": 0}


async def test_expiry_of_certificates(alone: World) -> None:
    paths = alone.nodes["manager"].node.paths
    _, certificate = self_signed("m1", alone.clock, days=10)
    paths.ssl.mkdir(parents=True, exist_ok=True)
    (paths.ssl / "server.crt").write_bytes(certificate)
    (paths.etc / "sslmanager.cert").write_bytes(b"no certificate")
    found = (await scrape(alone))["secmon_certificate_expiry_time_seconds"]
    assert found == {"api": alone.clock.now().timestamp() + 10 * 86_400}


async def test_who_may_read(alone: World) -> None:
    assert (await scrape(alone, "reader"))["secmon_daemon_up"]
    with pytest.raises(SecmonError) as raised:
        await scrape(alone, "nobody")
    assert raised.value.code == 4000
