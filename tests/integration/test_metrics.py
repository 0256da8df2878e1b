"""Metrics of a real cluster: complete, and read by a real Prometheus with the example's configuration."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import Metric

from tests.folders import REPOSITORY
from tests.integration.kit import RealCluster, RealNode, free_port
from tests.openmetrics import parsed
from tests.waiting import wait_until

EXAMPLES = REPOSITORY / "deploy/prometheus"


def scraped(node: RealNode) -> Mapping[str, Metric]:
    """The metrics of a node, by name."""
    answer = node.request("GET", "/metrics")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def values(family: Metric, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in family.samples}


def _complete(node: RealNode) -> Mapping[str, Metric] | None:
    """The metrics, once all daemons have started."""
    found = scraped(node)
    return found if set(values(found["secmon_daemon_up"], "daemon").values()) == {1} else None


def test_every_counter_of_every_daemon_has_a_metric(three: RealCluster) -> None:
    for node in three.nodes:
        found = wait_until(partial(_complete, node), what=f"all daemons of {node.name} give their counters")
        assert found is not None
        up = values(found["secmon_daemon_up"], "daemon")
        assert {"secmon-supervisor", "secmon-apid", "secmon-clusterd", "secmon-remoted"} <= up.keys()
        assert values(found["secmon_unknown_counters"], "daemon") == dict.fromkeys(up, 0)
        assert values(found["secmon_process_open_fds"], "daemon").keys() == up.keys()


def test_the_master_shows_how_far_its_workers_are(three: RealCluster) -> None:
    names = {worker.name for worker in three.workers}

    def level() -> bool:
        behind = scraped(three.master)["secmon_replica_behind_revisions"].samples
        return {sample.labels["node"] for sample in behind} == names and not any(sample.value for sample in behind)

    wait_until(level, what="workers have confirmed everything")
    worker = scraped(three.workers[0])
    assert "secmon_replica_behind_revisions" not in worker
    assert worker["secmon_master_link_up"].samples[0].value == 1
    assert worker["secmon_security_lease_seconds"].samples[0].value > 0
    assert worker["secmon_node_info"].samples[0].labels["role"] == "worker"


def test_requests_are_counted_by_operation(three: RealCluster) -> None:
    node = three.workers[0]
    assert node.request("GET", "/agents/001/key").status_code == 401

    def counted() -> bool:
        samples = scraped(node)["secmon_api_request_duration_seconds"].samples
        known = {(each.labels["operation"], each.labels["status"]) for each in samples}
        return ("get_agents_agent_id_key", "401") in known

    wait_until(counted, what="a request is in the histogram")


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed (Debian: prometheus)")
def test_prometheus_reads_a_cluster_and_its_rules(three: RealCluster, tmp_path: Path) -> None:
    with prometheus(three, tmp_path) as ask:
        wait_until(lambda: _healths(ask) == ["up"] * len(three.nodes), what="Prometheus has read all nodes")
        wait_until(lambda: len(_names(ask)) == len(three.nodes), what="the figures of all nodes are stored")
        assert _names(ask) == {node.name for node in three.nodes}
        wait_until(lambda: _rule_healths(ask) == {"ok"}, what="all rules were evaluated")


def _healths(ask: httpx.Client) -> list[str]:
    return [target["health"] for target in _data(ask, "targets")["activeTargets"]]


def _names(ask: httpx.Client) -> set[str]:
    return {each["metric"]["node"] for each in _data(ask, "query", query="secmon_node_info")["result"]}


def _rule_healths(ask: httpx.Client) -> set[str]:
    return {rule["health"] for group in _data(ask, "rules")["groups"] for rule in group["rules"]}


def _data(ask: httpx.Client, path: str, **query: str) -> Any:
    try:
        answer = ask.get(f"/api/v1/{path}", params=query)
    except httpx.TransportError:
        answer = None
    if answer is None or answer.status_code == 503:  # it is still starting
        return {"activeTargets": [], "result": [], "groups": []}
    return answer.json()["data"]


@contextmanager
def prometheus(cluster: RealCluster, folder: Path) -> Iterator[httpx.Client]:
    """Prometheus with the example's configuration for this cluster."""
    settings = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(EXAMPLES / "alerts.yml")]
    (job,) = settings["scrape_configs"]
    job["static_configs"] = [{"targets": [f"{node.address}:{node.api_port}" for node in cluster.nodes]}]
    job["tls_config"]["ca_file"] = str(folder / "nodes.pem")
    certificates = [(node.paths.ssl / "server.crt").read_text() for node in cluster.nodes]
    (folder / "nodes.pem").write_text("".join(certificates))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    command = ["setpriv", "--pdeathsig", "TERM", "prometheus", f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                yield client
        finally:
            process.terminate()
