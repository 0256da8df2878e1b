"""The wheel holds all that an installation needs, and upgrades a node that runs."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import MASTER
from tests.deploy.wheels import CONSOLE, ROOT, build, release
from tests.folders import short_root
from tests.integration.kit import free_port

BROKEN = """
async def fail(self):
    raise RuntimeError("this release is broken")

ApiDaemon.start = fail
"""
PIP = ("--pip-option=--no-deps", "--pip-option=--no-index")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See ``wheels.build``."""
    return build(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


def test_everything_that_is_no_code_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    data = {name.partition("/share/secmon/")[2] for name in names if "/share/secmon/" in name}
    folders = ("decoders", "rules", "lists", "sca", "attack")
    files = (path for folder in folders for path in (ROOT / "ruleset" / folder).glob("*") if path.is_file())
    there = {str(path.relative_to(ROOT)) for path in files}
    assert {name for name in there if not Path(name).name.startswith("_")} <= data
    others = (path for path in (ROOT / "secmon").rglob("*") if path.suffix in {".yaml", ".xml", ".conf", ".service"})
    assert {str(path.relative_to(ROOT)) for path in others} <= set(names)
    assert {f"secmon/api/static/{name}" for name in CONSOLE} <= set(names)


SERVED = """
import secmon
from starlette.testclient import TestClient
from secmon.api.console import Console
from secmon.common.counters import Counters

print(secmon.__file__)
print(TestClient(Console(Counters()), base_url="https://node").get("/console").text)
"""


def test_a_node_is_installed_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """In an environment with the libraries of this one, but without its source tree."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v/bin/python"
    install = ["install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    (packages,) = (tmp_path / "v/lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}

    def secmon(*arguments: object) -> str:
        command: list[str] = [str(tmp_path / "v/bin/secmon"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    secmon("init", tmp_path / "n")
    assert "is valid" in secmon("config", "check", "--root", tmp_path / "n")
    assert len(list((tmp_path / "n/ruleset/rules").iterdir())) == len(list((ROOT / "ruleset/rules").glob("[!_]*.xml")))
    shown = [str(python), "-c", SERVED]
    found = subprocess.run(shown, capture_output=True, text=True, cwd=tmp_path, env=environment)
    place, page = found.stdout.splitlines()
    assert place.startswith(str(tmp_path))
    assert page == CONSOLE["index.html.gz"].decode()


class Host:
    """A host with one release and a node that runs."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.root, self.releases = folder / "n", folder / "releases"
        libraries = folder / "libraries"
        libraries.mkdir()
        for each in Path(sysconfig.get_path("purelib")).iterdir():  # all but the source tree of these tests
            if "secmon" not in each.name and each.suffix != ".pth":
                (libraries / each.name).symlink_to(each)
        self.environment = os.environ | {"PYTHONPATH": str(libraries)}
        first = self.releases / "first"
        self.run(sys.executable, "-m", "venv", "--without-pip", str(first))
        target = ["--python", str(first / "bin/python"), "install", "-q", "--no-deps", "--no-index", str(wheel)]
        self.run(sys.executable, "-m", "pip", *target)
        (self.releases / "current").symlink_to("first")
        os.chmod(self.releases, 0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=self.environment, timeout=600)
        assert done.returncode in (0, 1), done.stderr
        return done

    def secmon(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.releases / "current/bin/secmon"), *arguments)

    def node(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.secmon(*arguments, "--root", str(self.root))

    @property
    def current(self) -> str:
        return (self.releases / "current").resolve().name


@pytest.fixture
def host(wheel: Path) -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="su-", dir=short_root()))
    made = Host(folder, wheel)
    ports = ("--api-port", "--agent-port", "--auth-port", "--port")  # the last one takes the next number too
    options = [each for port in ports for each in (port, str(free_port()))]
    init = made.secmon("init", str(made.root), *MASTER, "--bind", "127.0.0.1", "--api-host", "127.0.0.1", *options)
    assert init.returncode == 0, init.stderr
    started = made.node("start", "--daemonize")
    assert started.returncode == 0, started.stderr
    yield made
    made.node("stop")
    shutil.rmtree(folder)


@pytest.mark.timeout(900)
def test_a_release_that_does_not_start_is_left_and_one_that_does_is_kept(
    host: Host, wheel: Path, tmp_path: Path
) -> None:
    broken, sound = (
        release(wheel, "0.8.0", {"secmon/daemons/apid.py": BROKEN}, tmp_path),
        release(wheel, "0.9.0", {}, tmp_path),
    )
    refused = host.node("service", "upgrade", str(broken), *PIP)
    assert (refused.returncode, "make a backup" in refused.stderr) == (1, True), refused.stderr
    checked = host.node("service", "upgrade", str(sound), "--check", "--without-backup", *PIP)
    assert (checked.returncode, host.current) == (0, "first"), checked.stderr
    assert "0.9.0 understands" in checked.stdout

    failed = host.node("service", "upgrade", str(broken), "--without-backup", "--seconds", "10", *PIP)
    assert (failed.returncode, host.current) == (1, "first"), failed.stderr
    assert "the node runs first as before" in failed.stderr
    assert host.node("status").returncode == 0
    assert not (host.releases / "previous").exists()

    done = host.node("service", "upgrade", str(sound), "--without-backup", *PIP)
    assert done.returncode == 0, done.stderr
    assert host.current.startswith("0.9.0-")
    assert host.secmon("--version").stdout.startswith("secmon 0.9.0 ")
    assert (host.releases / "previous").resolve().name == "first"
    assert host.node("status").returncode == 0
