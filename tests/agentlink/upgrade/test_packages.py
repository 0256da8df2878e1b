"""Repositories and the packages that are kept of them (agent-link.md 10.4)."""

import asyncio
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from secmon.agentlink.upgrade import packages as packages_module
from secmon.agentlink.upgrade.failures import UpgradeFailure
from secmon.agentlink.upgrade.packages import REMEMBERED_SECONDS, Packages
from secmon.agentlink.upgrade.repository import PackageLocation as Location
from secmon.agentlink.upgrade.repository import package_location, repository
from secmon.agents.tasks.lifecycle import Work
from secmon.agents.upgrade_targets import Candidate
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from tests.common.webserver import WebServer, answer, web_server
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

PACKAGE = b"WPK256\0" + bytes(range(256)) * 20
SHA1 = sha1(PACKAGE).hexdigest()
FILE = "wazuh_agent_v4.8.2_linux_x86_64.wpk"


def agent(platform: str = "ubuntu", **values: Any) -> Candidate:
    known: dict[str, Any] = {"os_major": "22", "os_minor": "04", "os_arch": "x86_64", "version": "Wazuh v4.7.0"}
    return Candidate(id=1, node_name="alpha", os_platform=platform, **(known | values))


@pytest.mark.parametrize(
    ("one", "version", "expected"),
    [
        (agent(), "v4.8.2", Location("linux/x86_64/", FILE)),
        (
            agent("debian", os_arch="aarch64"),
            "v3.4.0",
            Location("linux/aarch64/", "wazuh_agent_v3.4.0_linux_aarch64.wpk"),
        ),
        (agent("windows", os_arch=None), "v4.8.2", Location("windows/", "wazuh_agent_v4.8.2_windows.wpk")),
        (
            agent("darwin", os_arch="arm64"),
            "v4.8.2",
            Location("macos/arm64/pkg/", "wazuh_agent_v4.8.2_macos_arm64.wpk"),
        ),
        (agent(), "v3.3.1", Location("ubuntu/22.04/x86_64/", "wazuh_agent_v3.3.1_ubuntu_22.04_x86_64.wpk")),
        (
            agent("rhel", os_major="7"),
            "v3.3.1",
            Location("rhel/7/x86_64/", "wazuh_agent_v3.3.1_rhel_7_x86_64.wpk"),
        ),
    ],
)
def test_package_locations(one: Candidate, version: str, expected: Location) -> None:
    assert package_location(one, version) == expected


@pytest.mark.parametrize(
    "one", [agent(os_arch="../x"), agent(os_arch=".."), agent(os_arch="a/b"), agent("darwin", os_arch=None)]
)
def test_agents_do_not_choose_paths(one: Candidate) -> None:
    with pytest.raises(UpgradeFailure):
        package_location(one, "v4.8.2")


def test_agents_do_not_choose_paths_of_the_old_layout() -> None:
    for one in (agent("../etc"), agent(os_minor="../4"), agent("rhel", os_major="")):
        with pytest.raises(UpgradeFailure):
            package_location(one, "v3.3.1")


@pytest.mark.parametrize(
    ("text", "http", "expected"),
    [
        ("packages.example/4.x/wpk/", False, "https://packages.example/4.x/wpk/x"),
        ("packages.example/4.x/wpk", True, "http://packages.example/4.x/wpk/x"),
        ("http://packages.example:81", False, "http://packages.example:81/x"),
        ("/srv/wpk", False, "/srv/wpk/x"),
        ("./var/mirror", True, "/root/var/mirror/x"),
        ("", False, "/root/var/wpk/x"),
    ],
)
def test_repositories(text: str, http: bool, expected: str) -> None:
    root = Path("/root")
    assert repository(text, root, root / "var/wpk", http=http).name("x") == expected


def fill(folder: Path, package: bytes = PACKAGE, listed: str = f"v4.9.0 {'0' * 40}\n4.8.2  {SHA1.upper()}\n") -> None:
    (folder / "linux/x86_64").mkdir(parents=True, exist_ok=True)
    (folder / "linux/x86_64/versions").write_text(listed)
    (folder / "linux/x86_64" / FILE).write_bytes(package)


class TestFolder:
    async def test_found(self, tmp_path: Path) -> None:
        paths = Paths(tmp_path)
        fill(paths.packages)
        found = await Packages(paths, ManualClock(), configured="").find(agent(), Work())
        assert found == (paths.packages / "linux/x86_64" / FILE, SHA1)
        fill(tmp_path / "other")
        found = await Packages(paths, ManualClock(), configured="x.example").find(agent(), Work(repository="./other"))
        assert found.path == tmp_path / "other/linux/x86_64" / FILE

    async def test_failures(self, tmp_path: Path) -> None:
        paths, clock = Paths(tmp_path), ManualClock()
        held = Packages(paths, clock, configured=str(tmp_path / "w"))

        async def code(version: str | None = None) -> int:
            with pytest.raises(UpgradeFailure) as caught:
                await held.find(agent(), Work(version=version))
            return caught.value.code

        assert await code() == 14
        fill(tmp_path / "w")
        assert await code("v4.8.1") == 15
        (tmp_path / "w/linux/x86_64" / FILE).unlink()
        assert await code() == 16
        fill(tmp_path / "w", b"changed")
        assert await code() == 17


@pytest.fixture
async def site() -> Any:
    pages = {
        "/wpk/linux/x86_64/versions": answer(f"v4.8.2 {SHA1}\n".encode()),
        f"/wpk/linux/x86_64/{FILE}": answer(PACKAGE),
    }
    async with web_server(pages) as server:
        yield server


class TestAddress:
    async def test_fetched_once(self, tmp_path: Path, site: WebServer) -> None:
        paths, clock = Paths(tmp_path), ManualClock()
        held = Packages(paths, clock, configured=site.url("/wpk/"))
        found = await asyncio.gather(*(held.find(agent(), Work()) for _ in range(20)))
        assert set(found) == {(paths.upgrades / FILE, SHA1)}
        assert (paths.upgrades / FILE).read_bytes() == PACKAGE
        assert site.asked.count(f"/wpk/linux/x86_64/{FILE}") == 1
        lists = site.asked.count("/wpk/linux/x86_64/versions")
        await held.find(agent(), Work())
        assert site.asked.count("/wpk/linux/x86_64/versions") == lists
        clock.advance(REMEMBERED_SECONDS)
        await held.find(agent(), Work())
        assert site.asked.count("/wpk/linux/x86_64/versions") == lists + 1
        again = Packages(paths, clock, configured=site.url("/wpk/"))
        await again.find(agent(), Work())
        assert site.asked.count(f"/wpk/linux/x86_64/{FILE}") == 1

    async def test_http_is_a_choice(self, tmp_path: Path, site: WebServer) -> None:
        held = Packages(Paths(tmp_path), ManualClock(), configured="")
        work = Work(repository=f"127.0.0.1:{site.port}/wpk", http=True)
        assert (await held.find(agent(), work)).sha1 == SHA1

    async def test_tried_again(self, tmp_path: Path, site: WebServer) -> None:
        page = f"/wpk/linux/x86_64/{FILE}"
        good = site.pages.pop(page)
        held = Packages(Paths(tmp_path), ManualClock(), configured=site.url("/wpk/"), pause=0.01)
        with pytest.raises(UpgradeFailure) as caught:
            await held.find(agent(), Work())
        assert (caught.value.code, site.asked.count(page)) == (16, packages_module.ATTEMPTS)
        site.pages[page] = good
        assert (await held.find(agent(), Work())).sha1 == SHA1

    async def test_a_slow_repository_does_not_hold_up_others_for_long(
        self, tmp_path: Path, site: WebServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(packages_module, "PACKAGE_SECONDS", 0.3)
        page = f"/wpk/linux/x86_64/{FILE}"
        site.pages[page] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
        site.slow.add(page)
        held = Packages(Paths(tmp_path), SystemClock(), configured=site.url("/wpk/"), pause=0.0)
        with pytest.raises(UpgradeFailure, match="not finished") as caught:
            await held.find(agent(), Work())
        assert (caught.value.code, site.asked.count(page)) == (16, 1)

    async def test_damaged(self, tmp_path: Path, site: WebServer) -> None:
        page = f"/wpk/linux/x86_64/{FILE}"
        good, site.pages[page] = site.pages[page], answer(b"something else")
        held = Packages(Paths(tmp_path), ManualClock(), configured=site.url("/wpk/"), pause=0.01)
        with pytest.raises(UpgradeFailure) as caught:
            await held.find(agent(), Work())
        assert caught.value.code == 17
        site.pages[page] = good  # the local file does not match the digest: it is fetched again
        assert (await held.find(agent(), Work())).path.read_bytes() == PACKAGE

    async def test_unreachable(self, tmp_path: Path) -> None:
        held = Packages(Paths(tmp_path), ManualClock(), configured="http://127.0.0.1:1/")
        with pytest.raises(UpgradeFailure) as caught:
            await held.find(agent(), Work())
        assert caught.value.code == 14


class TestOwnFiles:
    async def test_found(self, tmp_path: Path) -> None:
        (tmp_path / "own.wpk").write_bytes(PACKAGE)
        held = Packages(Paths(tmp_path), ManualClock(), configured="")
        assert await held.find(agent(), Work(file="own.wpk")) == (tmp_path / "own.wpk", SHA1)
        (tmp_path / "own.wpk").write_bytes(b"other")
        assert (await held.find(agent(), Work(file="own.wpk"))).sha1 == sha1(b"other").hexdigest()

    async def test_not_found(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir()
        (tmp_path / "own.wpk").write_bytes(PACKAGE)
        (root / "link.wpk").symlink_to(tmp_path / "own.wpk")
        held = Packages(Paths(root), ManualClock(), configured="")
        for name in ("absent.wpk", "../own.wpk", "link.wpk", "."):
            with pytest.raises(UpgradeFailure) as caught:
                await held.find(agent(), Work(file=name))
            assert caught.value.code == 16
