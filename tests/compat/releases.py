"""Earlier releases, as the history of the repository has them."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PREVIOUS = "1ec4894"
"""The last commit of generation 2 of the link, of API and product version 4.8.2, without alembic."""
GENERATION_1 = "22fcf64"
"""The last commit of generation 1."""
METADATA = "Metadata-Version: 2.1\nName: secmon\nVersion: 4.8.2\n"


def extract(commit: str, folder: Path) -> Path:
    """The package as of ``commit``, below ``folder``. Skips the test in a copy without that part of the history."""
    known = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
    if known.returncode:
        pytest.skip(f"commit {commit} is not in the history of this copy of the repository")
    archive = folder / "release.tar"
    paths = ("secmon", "ruleset")
    subprocess.run(["git", "-C", ROOT, "archive", "-o", archive, commit, *paths], check=True)
    subprocess.run(["tar", "-x", "-f", archive, "-C", folder], check=True)
    archive.unlink()
    info = folder / "secmon-4.8.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    return folder


def with_release(folder: Path) -> list[str]:
    """The beginning of a command line that runs Python with the package in ``folder``."""
    return ["env", "-C", str(folder), f"PYTHONPATH={folder}"]
