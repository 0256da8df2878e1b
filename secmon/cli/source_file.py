"""The content that a command imports, from a FILE or a URL."""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from secmon.common.download import DownloadError, fetch
from secmon.common.errors import os_text
from secmon.common.paths import Paths
from secmon.common.privileges import as_root

_SECONDS = 3600.0
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@contextmanager
def open_source(source: str, paths: Paths, limit: int, *, internal_redirects: bool = False) -> Iterator[IO[bytes]]:
    """The file at ``source``, at its beginning, of at most ``limit`` bytes.

    A download is written to an unnamed file in ``paths.downloads``, which the system deletes when it is closed.
    Raises ClickException.
    """
    if _ADDRESS.match(source):
        with _temporary(paths.downloads) as file:
            _download(source, file, limit, internal_redirects)
            file.seek(0)
            yield file
        return
    with _opened(Path(source), limit) as file:
        yield file


def _opened(path: Path, limit: int) -> IO[bytes]:
    try:
        with as_root():
            file = path.open("rb")
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; nothing was changed") from error
    if size > limit:
        raise click.ClickException(f"{path}: it has more than {limit >> 20} MB; nothing was changed")
    return file


def _temporary(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise click.ClickException(os_text(error)) from error


def _download(url: str, file: IO[bytes], limit: int, internal_redirects: bool) -> None:
    with click.progressbar(length=limit, label="Downloading", show_pos=True) as bar:

        def progress(received: int, total: int | None) -> None:
            bar.length = total or limit
            bar.update(received - bar.pos)

        try:
            work = fetch(
                url, file, limit=limit, seconds=_SECONDS, internal_redirects=internal_redirects, progress=progress
            )
            asyncio.run(work)
        except DownloadError as error:
            raise click.ClickException(f"{url}: {error}; nothing was changed") from error
