"""Wheels of this source tree, and of releases that there are not."""

import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONSOLE = {"index.html.gz": b"<p>the console</p>", "page-0123abcd.js.gz": b"1"}


def build(source: Path, target: Path) -> Path:
    """Without the compiled matchers, which take a minute and need what registries have. ``source`` is empty."""
    for name in ("secmon", "ruleset", "pyproject.toml", "README.md", "NOTICE"):
        subprocess.run(["cp", "-a", ROOT / name, source / name], check=True)
    (source / "secmon/api/static").mkdir(exist_ok=True)
    for name, content in CONSOLE.items():  # as if it had been made
        (source / "secmon/api/static" / name).write_bytes(gzip.compress(content))
    options = ["-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "-w", target, source], check=True)
    (made,) = target.glob("*.whl")
    return made


def release(wheel: Path, version: str, added: Mapping[str, str], folder: Path) -> Path:
    """A wheel of another version; ``added``: lines at the end of its modules."""
    _, old, rest = wheel.name.split("-", 2)
    made = io.BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            content = source.read(name) + added.get(name, "").encode()
            if name.endswith(".dist-info/METADATA"):
                content = content.replace(f"\nVersion: {old}\n".encode(), f"\nVersion: {version}\n".encode())
            target.writestr(name.replace(f"secmon-{old}.", f"secmon-{version}.", 1), content)
    path = folder / f"secmon-{version}-{rest}"
    path.write_bytes(made.getvalue())
    return path
