"""Files with secrets that the operator names."""

from pathlib import Path

import click

from secmon.common.file_io import read_regular
from secmon.common.privileges import as_root


def read_secret(file: Path) -> bytes:
    """The content of ``file``, with the operator's own rights. Raises OSError."""
    with as_root():
        return read_regular(file, follow=True)


def read_secret_line(file: Path) -> str:
    """The text of ``file`` without surrounding white space; warns if every user may read the file."""
    with as_root():
        open_to_all = file.stat().st_mode & 0o004
    if open_to_all:
        click.echo(f"Warning: every user of this host may read {file}; close it: chmod o= {file}", err=True)
    return read_secret(file).decode("utf-8", "replace").strip()
