"""What of a host is compared: names and versions by system, kernels, vendors, and Windows itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inventory.vulnerabilities.scanned_node import DEBIAN, ScannedNode, package
from tests.knowledge.vulnerabilities.records import affected, record


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ScannedNode]:
    made = ScannedNode(tmp_path)
    yield made
    made.close()


def test_of_kernels_only_the_running_one_counts(node: ScannedNode) -> None:
    node.advise(record("K", affected("Debian:12", "linux", {"fixed": "6.1.90-1"})))
    node.report("osinfo", DEBIAN)
    signed = {"source": "linux-signed-amd64 (6.1.76+1)"}
    node.install(
        package("linux-image-6.1.0-18-amd64", "6.1.76-1", **signed),
        package("linux-image-6.1.0-17-amd64", "6.1.69-1", **signed),
        package("linux-image-amd64", "6.1.90-1", source="linux-signed-amd64 (6.1.90+1)"),
    )  # fmt: skip
    node.work()
    assert node.rows("name") == ["linux-image-6.1.0-18-amd64"]


def test_packages_of_other_vendors_and_formats_are_not_compared(node: ScannedNode) -> None:
    redhat = affected("Red Hat:enterprise_linux:9::baseos", "demo", {"fixed": "0:2-1.el9"})
    node.advise(record("RHSA-1", redhat, related=["CVE-2099-0009"]))
    node.report(
        "osinfo", {"os_name": "Red Hat", "os_major": "9", "os_platform": "rhel", "release": "5.14.0-1.el9.x86_64"}
    )
    node.install(
        package("demo", "1-1.el9", format="rpm", vendor="Red Hat, Inc.", item_id="a"),
        package("demo", "1-2.el9", format="rpm", vendor="Somebody", item_id="b"),
        package("demo", "1-3.el9", format="deb", item_id="c"),
        package("demo", "2-1.el9", format="rpm", item_id="d"),
    )
    node.work()
    assert node.rows("reference", "cve") == [("a", "CVE-2099-0009")]


def test_builds_and_hotfixes_of_windows(node: ScannedNode) -> None:
    fixes = {"hotfixes": ["KB5034768", "KB5035000"]}
    found = affected("Windows", "Windows Server 2019", {"fixed": "17763.5458"}, ecosystem_specific=fixes)
    node.advise(record("CVE-2099-0010", found))
    system = {"os_name": "Microsoft Windows Server 2019 Standard", "os_build": "17763.5329", "os_platform": "windows"}
    node.report("osinfo", system)
    node.report("hotfixes", {"hotfix": "KB1"})
    node.work()
    assert node.rows("type", "name", "version", "status") == [
        ("OS", "Microsoft Windows Server 2019 Standard", "17763.5329", "VALID")
    ]
    node.report("hotfixes", {"hotfix": "KB5035000"})
    node.work()
    assert node.rows("status") == ["OBSOLETE"]
    node.report("osinfo", {**system, "os_build": "17763.5458"}, operation="MODIFIED")
    node.report("hotfixes", {"hotfix": "KB5035000"}, operation="DELETED")
    node.work()
    assert "VALID" not in node.rows("status")


def test_another_system_on_the_same_host(node: ScannedNode) -> None:
    node.advise(record("A", affected("Debian:12", "demo")), record("B", affected("Debian:11", "demo")))
    node.report("osinfo", DEBIAN)
    node.install(package("demo", "1"))
    node.work()
    node.report("osinfo", {**DEBIAN, "os_major": "11"}, operation="MODIFIED")
    node.work()
    assert node.rows("cve", "status") == [("A", "OBSOLETE"), ("B", "VALID")]


def test_a_system_that_is_not_known(node: ScannedNode) -> None:
    node.advise(record("A", affected("Debian:12", "demo")))
    node.report("osinfo", {**DEBIAN, "os_platform": "plan9"})
    node.install(package("demo", "1"))
    node.work()
    assert node.rows("cve") == []
