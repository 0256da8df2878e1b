"""Releases of this program beside each other, each in an environment of its own; a link names the one in use.

``/opt/secmon-releases/current -> 0.4.0-1a2b3c4d``. The unit of systemd and operators use the link.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CURRENT, PREVIOUS = "current", "previous"
_COMPLETE = ".complete"
_WHEEL = re.compile(r"secmon-([0-9A-Za-z.!+]+)(-[0-9][^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


class ReleaseError(Exception):
    """A sentence for the operator."""


class Links(NamedTuple):
    """What the links name; ``previous``: None at first."""

    current: Path
    previous: Path | None


def link_in_use() -> Path | None:
    """The link ``current`` by which this program is installed; None when it is installed otherwise."""
    link = Path(sys.prefix).resolve().parent / CURRENT
    return link if link.is_symlink() and link.resolve() == Path(sys.prefix).resolve() else None


class Releases:
    """The folder of the releases. Only its owner may change it, who runs this."""

    def __init__(self, link: Path) -> None:
        """``link``: ``current``. Raises ReleaseError for a folder that another user may change, OSError."""
        self.folder, self.link = link.parent, link
        found = self.folder.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ReleaseError(f"{self.folder} must belong to the user who runs this, and no other may write it")

    def links(self) -> Links:
        previous = self.folder / PREVIOUS
        return Links(self.link.resolve(), previous.resolve() if previous.is_symlink() else None)

    def make(self, wheel: Path, pip_options: Sequence[str] = ()) -> Path:
        """Install ``wheel`` into an environment of its own, or find that this was done; nothing else changes.

        Raises ReleaseError with what pip said, OSError.
        """
        found = _WHEEL.fullmatch(wheel.name)
        if found is None:
            raise ReleaseError(f"{wheel.name} is not the name of a wheel of secmon")
        release = self.folder / f"{found[1]}-{hashlib.sha256(wheel.read_bytes()).hexdigest()[:8]}"
        if (release / _COMPLETE).exists():
            return release
        if release.exists():  # an earlier attempt was interrupted
            shutil.rmtree(release)
        pip = any(self.link.glob("lib/*/site-packages/pip"))
        python = str(release / "bin/python")
        base = getattr(sys, "_base_executable", None) or sys.executable
        try:
            run([base, "-m", "venv", *([] if pip else ["--without-pip"]), str(release)])
            quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
            run([sys.executable, "-m", "pip", "--python", python, "install", *quiet, *pip_options, str(wheel)])
        except BaseException:
            shutil.rmtree(release, ignore_errors=True)
            raise
        (release / _COMPLETE).touch()
        return release

    def switch(self, release: Path) -> None:
        """Use ``release`` from the next start on, and remember the present one."""
        self.put(Links(release, self.link.resolve()))

    def put(self, links: Links) -> None:
        """Point both links there; each changes at once."""
        if links.previous is None:
            (self.folder / PREVIOUS).unlink(missing_ok=True)
        else:
            self._point(PREVIOUS, links.previous)
        self._point(CURRENT, links.current)

    def _point(self, name: str, release: Path) -> None:
        made = self.folder / f".{name}.new"
        made.unlink(missing_ok=True)
        made.symlink_to(release.name)
        made.replace(self.folder / name)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def run(command: Sequence[str], *, seconds: float = 900.0) -> str:
    """The output of a program. Raises ReleaseError with what it said when it fails or does not end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise ReleaseError(f"{command[0]} has not ended within {seconds:.0f} s") from error
    if done.returncode != 0:
        raise ReleaseError((done.stdout + done.stderr).strip() or f"{command[0]} failed: status {done.returncode}")
    return done.stdout
