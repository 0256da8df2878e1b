"""``secmon sca``: policies by which agents assess the configuration of their hosts."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from secmon.cli.group import LazyGroup, echo_json, json_option
from secmon.common.file_io import read_regular
from secmon.common.privileges import as_root
from secmon.config.default_ruleset import default_ruleset_folder
from secmon.engine.matching.expression import compile_expression
from secmon.inventory.assessment.policy_files import Fault, check_policies

_FILES = click.Path(path_type=Path, exists=True)


@click.group(cls=LazyGroup, short_help="Check assessment policies.")
def sca() -> None:
    """Check policies by which agents assess the configuration of their hosts.

    Example:  secmon sca check /opt/secmon/etc/shared/linux
    """


@sca.command(short_help="Check files of policies.")
@click.argument("files", metavar="[DIR|FILE]...", nargs=-1, type=_FILES)
@json_option
def check(files: tuple[Path, ...], as_json: bool) -> None:
    """Check files of policies, and compare the ids of policies and checks over all of them.

    Of a folder all files *.yml are checked. Without arguments: the policies that come with secmon.

    Example:  secmon sca check /opt/secmon/etc/shared/linux

    Exit status: 0 nothing wrong, 1 something is wrong, 2 wrong usage.
    """
    chosen = files or (default_ruleset_folder() / "sca",)
    with as_root():
        read = {str(file): read_regular(file, follow=True) for file in _policies(chosen)}
    if not read:
        raise click.ClickException("no policies found: folders are searched for files *.yml")
    faults = list(check_policies(read, compile_expression))
    if as_json:
        echo_json({"files": len(read), "faults": [_shown(one) for one in faults]})
    else:
        for one in faults:
            click.echo(str(one))
        click.echo(f"policies: {len(read)}, faults: {len(faults)}")
    sys.exit(1 if faults else 0)


def _policies(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.yml")) if path.is_dir() else (path,)


def _shown(fault: Fault) -> dict[str, str]:
    return {"file": fault.file, "place": fault.place, "problem": fault.problem}
