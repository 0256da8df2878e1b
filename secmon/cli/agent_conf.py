"""``secmon verify-agent-conf``: the configuration that agents of groups get."""

import sys
from pathlib import Path

import click

from secmon.agents.agent_conf import verify_agent_conf
from secmon.agents.groups.folders import AGENT_CONF, list_groups
from secmon.cli.group import echo_json, json_option, require_installation, root_option
from secmon.common.errors import Fault, os_text
from secmon.common.file_io import read_regular
from secmon.common.paths import Paths
from secmon.config.problems import Problem, Report


@click.command("verify-agent-conf", short_help="Check the configuration of agents.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@root_option
@json_option
def verify(files: tuple[Path, ...], paths: Paths, as_json: bool) -> None:
    """Check agent.conf files as agents read them; name all errors.

    Without FILE the files of all groups are checked. Run this after each change: an invalid file can stop agents.

    Example:  secmon verify-agent-conf /opt/secmon/etc/shared/web/agent.conf

    Exit status: 0 valid, 1 not valid, 2 wrong usage.
    """
    if not files:
        require_installation(paths)
        shared = (paths.shared / group / AGENT_CONF for group in list_groups(paths))
        files = tuple(file for file in shared if file.exists())
    reports = [_verified(file) for file in files]
    if as_json:
        echo_json([_shown(report) for report in reports])
    else:
        for report in reports:
            _print(report)
    sys.exit(1 if any(report.problems for report in reports) else 0)


def _verified(file: Path) -> Report:
    try:
        return verify_agent_conf(read_regular(file, follow=True), str(file))
    except OSError as error:
        report = Report(str(file))
        report.problems.append(Problem(str(file), None, "", "file", Fault(os_text(error)), "a readable file"))
        return report


def _shown(report: Report) -> dict[str, object]:
    problems = [
        {"line": each.line, "section": each.section, "option": each.key, "message": str(each)}
        for each in report.problems
    ]
    return {"file": report.file, "valid": not problems, "problems": problems, "warnings": report.warnings}


def _print(report: Report) -> None:
    for warning in report.warnings:
        click.echo(f"Warning: {warning}", err=True)
    for problem in report.problems:
        click.echo(str(problem))
    if not report.problems:
        click.echo(f"{report.file}: valid")
