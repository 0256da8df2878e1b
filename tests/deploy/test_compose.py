"""The files of the containers fit together: what one names, the others have."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.folders import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()


@pytest.fixture(params=["compose.yaml", "compose.ha.yaml"])
def compose(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / request.param).read_text())
    return found


def test_secrets_volumes_and_services_that_are_used_are_declared(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(compose["volumes"])
        assert set(service.get("depends_on", [])) <= set(compose["services"])


def test_every_image_is_built(compose: dict[str, Any]) -> None:
    targets = {one["image"]: one["build"]["target"] for one in compose["services"].values() if "build" in one}
    assert {one["image"] for one in compose["services"].values()} == set(targets)
    for target in targets.values():
        assert re.search(rf"^FROM \S+ AS {target}$", DOCKERFILE, re.MULTILINE)


def test_the_balancer_has_all_nodes(compose: dict[str, Any]) -> None:
    names = compose["services"]["balancer"].get("environment", {})
    servers = set(re.findall(r'server \S+ "\$\{(\w+)-(\w+)\}:\d+"', (DEPLOY / "haproxy.cfg").read_text()))
    nodes = {name for name, service in compose["services"].items() if "NODE_NAME" in service.get("environment", {})}
    assert {names.get(variable, default) for variable, default in servers} == nodes


def test_the_database_is_where_the_nodes_look_for_it() -> None:
    services = yaml.safe_load((REPOSITORY / "compose.ha.yaml").read_text())["services"]
    for name in ("node1", "node2", "node3"):
        assert services[name]["environment"]["STORE"] == "postgresql://secmon@db1,db2/record"
    for name in ("db1", "db2"):
        members = re.findall(r'"(\w+):2379"', services[name]["environment"]["ETCD"])
        assert members == services["etcd1"]["environment"]["MEMBERS"].split()
        assert set(members) <= set(services)


@pytest.mark.parametrize("script", sorted(DEPLOY.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_can_be_parsed(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)
    assert f"deploy/{script.name}" in DOCKERFILE


def test_the_words_of_the_configuration_of_patroni_are_replaced() -> None:
    words = set(re.findall(r"@\w+@", (DEPLOY / "patroni.yml").read_text()))
    assert words == set(re.findall(r"@\w+@", (DEPLOY / "database.sh").read_text()))
