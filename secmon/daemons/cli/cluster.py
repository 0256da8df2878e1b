"""``secmon cluster``: the cluster as this node sees it."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from secmon.common.outcome import Outcome
from secmon.common.paths import Paths
from secmon.daemons.cli.group import LazyGroup, echo_json, json_option, require_installation, root_option
from secmon.daemons.cli.local import local_call

_MEMBER = ("name", "type", "version", "ip")


@click.group(cls=LazyGroup)
def cluster() -> None:
    """Look at the cluster from this node. The node must run.

    Example:  secmon cluster nodes --root /opt/secmon
    """


@cluster.command()
@root_option
@json_option
def nodes(paths: Paths, as_json: bool) -> None:
    """List the connected nodes: name, role, version, address.

    Example:  secmon cluster nodes --root /opt/secmon

    Exit status: 0 listed, 1 the cluster daemon or the master does not answer.
    """
    items = _items(paths, "GET /cluster/nodes")
    if as_json:
        echo_json(items)
    else:
        _table(_MEMBER, [[str(item.get(column, "")) for column in _MEMBER] for item in items])


@cluster.command()
@root_option
@json_option
def health(paths: Paths, as_json: bool) -> None:
    """Show how each node does: last sign of life, and whether files and security state are up to date.

    Example:  secmon cluster health --root /opt/secmon --json

    Exit status: 0 shown, 1 the cluster daemon or the master does not answer, or a node is lost or refused.
    """
    items = _items(paths, "GET /cluster/healthcheck")
    if as_json:
        echo_json(items)
    else:
        for item in items:
            _show("", item)
    if any(item.get("lost") or item.get("refused") for item in items):
        sys.exit(1)


def _items(paths: Paths, operation: str) -> list[dict[str, Any]]:
    require_installation(paths)
    outcome = local_call(paths, operation)
    if not isinstance(outcome, Outcome):
        raise click.ClickException("the cluster daemon sent an answer of another kind; see its log")
    for node, error in outcome.node_errors.items():
        click.echo(f"{node}: {error}", err=True)
    return outcome.items


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in ([name.upper() for name in header], *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show(indent: str, value: Mapping[str, Any]) -> None:
    """Nested members, one a line, deeper ones further in."""
    for name, member in value.items():
        if isinstance(member, Mapping):
            click.echo(f"{indent}{name}:")
            _show(f"{indent}  ", member)
        else:
            click.echo(f"{indent}{name}: {member}")
