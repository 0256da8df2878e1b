"""``secmon config``: the configuration files."""

import sys

import click

from secmon.cli.group import LazyGroup, echo_json, json_option, require_installation, root_option
from secmon.common.paths import Paths
from secmon.config.checks import installation_warnings
from secmon.daemons.supervisor_settings import inspect_installation
from secmon.engine.ruleset.validation import RulesetValidator


@click.group(cls=LazyGroup)
def config() -> None:
    """Work with the configuration files of a node.

    Example:  secmon config check --root /opt/secmon
    """


@config.command(short_help="Check the files; name all errors.")
@root_option
@json_option
def check(paths: Paths, as_json: bool) -> None:
    """Check api.yaml, the main configuration, the internal options and the ruleset; name all errors.

    Warnings do not make it invalid: an internal option that does not exist, a section without an effect, a list of the
    ruleset that is missing, a damaged store that the next start creates again.

    Example:  secmon config check --root /opt/secmon

    Exit status: 0 valid, 1 not valid, 2 wrong usage.
    """
    require_installation(paths)
    problems, damaged = inspect_installation(paths)
    warnings = installation_warnings(paths)
    warnings += [f"{reason}: secmon restart renames it and creates it again" for reason in damaged.values()]
    if not problems:  # the configuration names the files of the ruleset
        findings = RulesetValidator(paths).findings()
        problems = [finding.text for finding in findings if finding.error]
        warnings += [finding.text.removeprefix("WARNING: ") for finding in findings if not finding.error]
    if as_json:
        echo_json({"valid": not problems, "problems": problems, "warnings": warnings})
        sys.exit(1 if problems else 0)
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)
    if problems:
        for problem in problems:
            click.echo(problem)
    else:
        click.echo(f"The configuration of {paths.root} is valid.")
    sys.exit(1 if problems else 0)
