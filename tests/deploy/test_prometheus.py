"""Alert rules, dashboard and list of metrics: about metrics that exist, and as Prometheus understands them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from secmon.operations.metrics.document import HEADING, metrics_list
from secmon.operations.metrics.tables.all import METRICS
from tests.folders import REPOSITORY
from tests.waiting import LIMIT_SECONDS

FOLDER = REPOSITORY / "deploy/prometheus"
DOCUMENT = REPOSITORY / "docs/metrics.md"
HISTOGRAM = "secmon_api_request_duration_seconds"
KNOWN = {metric.full_name for metric in METRICS} | {f"{HISTOGRAM}_{end}" for end in ("count", "sum", "bucket")}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def alerts() -> set[str]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"]}


def expressions(panel: Any) -> Iterator[str]:
    """All of a dashboard."""
    if isinstance(panel, dict):
        yield from (value for name, value in panel.items() if name == "expr")
        panel = list(panel.values())
    if isinstance(panel, list):
        for each in panel:
            yield from expressions(each)


def dashboard() -> list[str]:
    return list(expressions(json.loads((FOLDER / "grafana-dashboard.json").read_text())))


@pytest.mark.parametrize("file", ["alerts.yml", "alerts_test.yml", "grafana-dashboard.json"])
def test_it_is_about_metrics_that_exist(file: str) -> None:
    names = set(re.findall(r"\bsecmon_\w+", (FOLDER / file).read_text()))
    assert len(names) > 20
    assert names <= KNOWN


def test_the_document_is_about_metrics_that_exist_too() -> None:
    by_hand = DOCUMENT.read_text("utf-8").partition(HEADING)[0]
    assert set(re.findall(r"\bsecmon_\w+", by_hand)) <= KNOWN


def test_the_list_of_metrics_is_current() -> None:
    assert DOCUMENT.read_text("utf-8").endswith(metrics_list()), "run: make docs"


def test_every_alert_has_been_seen_firing() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    labels = [each["labels"] for test in tests for query in test["promql_expr_test"] for each in query["exp_samples"]]
    assert set(re.findall(r'alertname="(\w+)"', " ".join(labels))) == alerts()


@needs_promtool
def test_alerts_fire_when_they_should() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


@needs_promtool
def test_the_example_is_a_configuration() -> None:
    promtool("check", "config", "--syntax-only", "prometheus.yml")


@needs_promtool
def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    filled = [each.replace("$__rate_interval", "1m") for each in dashboard()]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(filled)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "rules.yml"))


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
