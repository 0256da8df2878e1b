"""Real folders to work on, and random edits of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

_PATHS = [
    "etc/lists/keys",
    "etc/shared/a/agent.conf",
    "etc/shared/a/sub/f",
    "etc/shared/a/sub",
    "etc/shared/b/x.tmp",
    "etc/shared/b/x",
    "etc/rules/r.xml",
    "etc/rules/d",
    "etc/rules/d/r.xml",
    "etc/lists/l",
    "var/multigroups/1/merged.mg",
    "var/multigroups/1/other",
]
edits = st.tuples(
    st.sampled_from(["write", "write", "write", "delete", "move to etc/decoders/m"]),
    st.sampled_from([*_PATHS, "etc/shared/a", "etc/shared/b", "etc/rules"]),
    st.binary(max_size=3),
)
"""Kind, path, content."""


def write(root: Path, path: str, content: bytes) -> Path:
    """Write a file with its folders."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@contextmanager
def new_root() -> Iterator[Path]:
    """An empty installation folder, for tests that need one per example."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def remove(target: Path) -> None:
    """Delete whatever is there."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    elif target.is_file() or target.is_symlink():
        target.unlink()


def edit(root: Path, kind: str, path: str, content: bytes) -> set[str]:
    """One change, after whatever has its place is removed; the touched paths."""
    target = root / path
    if kind == "write":
        if target == root / "etc/rules" or path in ("etc/shared/a", "etc/shared/b"):
            target.mkdir(parents=True, exist_ok=True) if not target.exists() else None
            return {path}
        touched = {path}
        for parent in reversed(target.relative_to(root).parents):
            if (root / parent).is_file():
                (root / parent).unlink()
            touched.add(str(parent))
        if target.is_dir():
            shutil.rmtree(target)
        write(root, path, content)
        return touched - {"."}
    if kind == "delete":
        remove(target)
        return {path}
    destination = root / kind.removeprefix("move to ")
    if target.exists():
        remove(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        target.rename(destination)
    return {path, kind.removeprefix("move to ")}
