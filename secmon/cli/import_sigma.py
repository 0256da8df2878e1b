"""``secmon import sigma``: rules of Sigma."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from secmon.cli.group import echo_json, json_option, root_option
from secmon.cli.store import require_master
from secmon.common.paths import Paths
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.importers.sigma import ImportRefused, SigmaReport, import_sigma

_SHOWN = ("untranslated", "unreadable", "removed")


@click.command("sigma", short_help="Import Sigma rules.")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@root_option
@click.option(
    "--values",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML file with values of placeholders.",
)
@click.option("--dry-run", is_flag=True, help="Translate and check the rules without changing files.")
@click.option("--all", "everything", is_flag=True, help="List the imported rules too, with their ids.")
@json_option
def sigma(path: Path, paths: Paths, values: Path | None, dry_run: bool, everything: bool, as_json: bool) -> None:
    """Import the Sigma rules in PATH, a file or a folder with all below it, as rules of the analysis.

    The rules take the place of those of the import before, all at once: rules that are no longer in PATH are removed.
    They have ids from 300000 on; each keeps its id in later imports. What cannot be translated is listed with the
    reason.
    If the ruleset would not load with the rules, nothing is changed. Works on the master, running or not: the rules
    are in force there within a second, and on the workers when they have been copied.

    \b
    Examples:
      secmon import sigma sigma/rules --dry-run
      secmon import sigma sigma/rules/windows --root /opt/secmon
      secmon import sigma my-rule.yml --all --json
      secmon import sigma sigma/rules --values names.yml   # administrators: [ana, bob]

    Exit status: 0 done, 1 failed or refused, 2 wrong usage.
    """
    require_master(paths, instead="run the command on the master,")
    with ExitStack() as stack:
        shown: list[Any] = []

        def progress(done: int, total: int) -> None:
            if not shown:
                shown.append(stack.enter_context(click.progressbar(length=total, label="Reading rules", show_pos=True)))
            shown[0].update(done - shown[0].pos)

        check = RulesetValidator(paths).blocking_error
        try:
            shown_progress = None if as_json else progress
            report = import_sigma(path, paths, check, values=values, dry_run=dry_run, progress=shown_progress)
        except ImportRefused as error:
            raise click.ClickException(f"{error}; nothing was changed") from error
    _print(report, dry_run=dry_run, everything=everything, as_json=as_json)


def _print(report: SigmaReport, *, dry_run: bool, everything: bool, as_json: bool) -> None:
    lines = [line for line in report.lines if everything or line.result in _SHOWN]
    if as_json:
        reasons = [{"reason": reason, "rules": times} for reason, times in report.reasons()]
        data = {"written": report.written, "counts": report.counts(), "reasons": reasons}
        echo_json({**data, "lines": msgspec.to_builtins(lines)})
        return
    for line in lines:
        number = "" if line.id is None else f" {line.id}"
        click.echo(
            f"{line.result:<12}{number} {line.place} {line.title!r}" + (f": {line.reason}" if line.reason else "")
        )
    if report.reasons():
        click.echo("\nRules  Not translated because")
        for reason, times in report.reasons():
            click.echo(f"{times:>5}  {reason}")
    counts = ", ".join(f"{number} {result}" for result, number in sorted(report.counts().items()))
    click.echo(f"{counts}.")
    if not report.written:
        click.echo("Nothing was changed: dry run." if dry_run else "Nothing was changed: all of it is there.")
