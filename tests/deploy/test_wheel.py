"""The wheel holds all that an installation needs: no source tree is read."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from tests.deploy.wheels import CONSOLE, ROOT


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
