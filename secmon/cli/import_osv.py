"""``secmon import osv``: advisories of vulnerabilities."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from secmon.cli.group import echo_json, json_option, root_option
from secmon.cli.source_file import open_source
from secmon.cli.store import require_master
from secmon.common.download import DownloadError
from secmon.common.errors import ConfigError, os_text
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.config.vulnerability_detection import detects_vulnerabilities
from secmon.knowledge.vulnerabilities.feed_changes import CHANGES, changed_records, newest_record, read_changes
from secmon.knowledge.vulnerabilities.feed_files import Progress, RawRecord, records_in_file, records_in_folder
from secmon.knowledge.vulnerabilities.importing import Imported, import_feed, roll_back
from secmon.knowledge.vulnerabilities.records import FeedError

_MAX_BYTES = 8 << 30


@click.command("osv", short_help="Import advisories of vulnerabilities.")
@click.argument("source", metavar="FILE|FOLDER|ZIP|URL", required=False)
@root_option
@click.option(
    "--ecosystem", "ecosystems", multiple=True, help="Take these only, such as Debian:12 or PyPI; repeatable."
)
@click.option("--full", is_flag=True, help="Drop records that the feed does not have, in the ecosystems that it has.")
@click.option("--rollback", is_flag=True, help="Put back what was in force before the last import.")
@click.option("--internal-redirects", is_flag=True, help="Follow redirects to addresses inside the network.")
@json_option
def osv(
    source: str | None,
    paths: Paths,
    ecosystems: Sequence[str],
    full: bool,
    rollback: bool,
    internal_redirects: bool,
    as_json: bool,
) -> None:
    """Import advisories in the OSV format, with which the packages of all hosts are compared.

    The source is a record, an array of records, a record a line, a folder or a zip archive of records, or the address
    of one of these. Records replace those of the same id that are older. An address that ends in modified_id.csv is a
    feed's list of changes: the records that are newer than those in force are fetched.

    Everything is read and checked before anything is replaced. Each ecosystem is a file below etc/advisories, in force
    on this node at once, on the others when it has been copied there. Works on the master, running or not.

    \b
    Examples:
      secmon import osv all.zip
      secmon import osv https://osv.example.org/Debian/all.zip --ecosystem Debian:12 --full
      secmon import osv https://osv.example.org/Debian/modified_id.csv --root /opt/secmon
      secmon import osv --rollback

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    if (source is None) is not rollback:
        raise click.UsageError("give a FILE, FOLDER, ZIP or URL, or --rollback")
    require_master(paths, instead="run the command on the master,")
    if source is None:
        _roll_back(paths)
        return
    try:
        with _records(source, paths, internal_redirects) as records:
            done = import_feed(paths, records, only=_wanted(ecosystems), full=full)
    except (FeedError, DownloadError) as error:
        raise click.ClickException(f"{source}: {error}; nothing was changed") from error
    except OSError as error:
        raise click.ClickException(f"{os_text(error)}; nothing was changed") from error
    _print(done, as_json=as_json)
    _warn_of_switch(paths)


@contextmanager
def _records(source: str, paths: Paths, internal_redirects: bool) -> Iterator[Iterator[RawRecord]]:
    """The records, with progress while they are read. Raises ClickException, and while they are read FeedError."""
    if source.endswith(f"/{CHANGES}") and "://" in source:
        with _progress("Fetching records") as progress:
            changes = read_changes(source, newest_record(paths, source), internal_redirects=internal_redirects)
            if not changes:
                click.echo("Nothing was changed: no record is newer than those in force.")
                raise click.exceptions.Exit(0)
            yield changed_records(source, changes, progress, internal_redirects=internal_redirects)
    elif Path(source).is_dir():
        with _progress("Reading records") as progress:
            yield records_in_folder(Path(source), progress)
    else:
        with (
            open_source(source, paths, _MAX_BYTES, internal_redirects=internal_redirects) as file,
            _progress("Reading records") as progress,
        ):
            yield records_in_file(file, progress)


@contextmanager
def _progress(label: str) -> Iterator[Progress]:
    with click.progressbar(length=1, label=label, show_pos=True, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        yield show


def _wanted(ecosystems: Sequence[str]) -> Callable[[str], bool]:
    """``Debian`` is all of ``Debian:11``, ``Debian:12`` and so on."""
    if not ecosystems:
        return lambda ecosystem: True
    return lambda ecosystem: any(ecosystem == each or ecosystem.startswith(f"{each}:") for each in ecosystems)


def _roll_back(paths: Paths) -> None:
    changed = roll_back(paths)
    if not changed:
        raise click.ClickException("nothing was imported before")
    click.echo(f"In force as before the last import: {', '.join(changed)}")


def _print(done: Imported, *, as_json: bool) -> None:
    if as_json:
        echo_json({"records": done.records, "unused": done.unused, "changed": done.ecosystems})
        return
    for ecosystem, number in done.ecosystems.items():
        click.echo(f"{ecosystem}: {number} records")
    click.echo(f"Read {done.records} records, {done.unused} of them of no ecosystem that is used.")
    if not done.ecosystems:
        click.echo("Nothing was changed: none is newer than what is in force.")


def _warn_of_switch(paths: Paths) -> None:
    try:
        enabled = detects_vulnerabilities(load_main_config(paths))
    except ConfigError as error:
        click.echo(f"Warning: {error}", err=True)
        return
    if not enabled:
        click.echo("Warning: vulnerability-detection is switched off in ossec.conf: no host is compared.", err=True)
