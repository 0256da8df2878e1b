"""``secmon cluster``: the cluster as this node sees it, and a new master for it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from secmon import API_VERSION, __version__
from secmon.cli.group import LazyGroup, echo_json, echo_line, echo_table, json_option, require_installation, root_option
from secmon.cli.local_calls import local_call
from secmon.cli.no_master import why_no_master
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.cluster.rpc.version import MIN_PROTOCOL, PROTOCOL, spoken
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.paths import Paths
from secmon.config.main import load_main_config

_MEMBER = ("name", "type", "version", "ip")
_HEALTH = (*_MEMBER, "agents", "files", "compared", "last seen")


@click.group(
    cls=LazyGroup,
    lazy={"promote": "secmon.cli.promote:promote", "switchover": "secmon.cli.switchover:switchover"},
    short_help="Show the cluster as this node sees it; change its master.",
)
def cluster() -> None:
    """Show the cluster as this node sees it, which must run; replace a lost master, or hand its role over.

    Example:  secmon cluster nodes --root /opt/secmon
    """


@cluster.command(short_help="List the connected nodes.")
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
        echo_table(_MEMBER, [[str(item.get(column, "")) for column in _MEMBER] for item in items])


@cluster.command(short_help="Show the health of each node.")
@root_option
@json_option
def health(paths: Paths, as_json: bool) -> None:
    """Show the health of each node: its last message, and whether its files are those of the master.

    Nodes that are lost or were refused are listed below the table, with the reason. --json shows all details. Without a
    master the command says why there is none, where a store of record decides it.

    Example:  secmon cluster health --root /opt/secmon

    Exit status: 0 shown, 1 the cluster daemon or the master does not answer, or a node is lost or refused.
    """
    items = _health_items(paths)
    if as_json:
        echo_json(items)
    else:
        show_health(items)
    if any(item.get("lost") or item.get("refused") for item in items):
        sys.exit(1)


@cluster.command(short_help="Show this node's versions, and whether it is in the cluster.")
@root_option
def status(paths: Paths) -> None:
    """Show the versions of this node, and whether it is in the cluster.

    Where the master refuses this node, or this master has refused others, the reason is shown.

    Example:  secmon cluster status --root /opt/secmon

    Exit status: 0 in the cluster, 1 not, or the cluster daemon does not answer, or a node is lost or refused.
    """
    require_installation(paths)
    section = current_cluster(paths, load_main_config(paths).cluster)
    click.echo(f"secmon {__version__} (API {API_VERSION}), link {spoken(PROTOCOL, MIN_PROTOCOL)}")
    click.echo(f"{section.node_name} is a {section.node_type} of cluster {section.name}: ", nl=False)
    try:
        items = _items(paths, "GET /cluster/healthcheck")
    except SecmonError as error:
        echo_line(f"not connected: {error}")
        for sentence in why_no_master(paths):
            echo_line(sentence)
        sys.exit(1)
    click.echo("connected")
    for sentence in troubles(items):
        echo_line(sentence)
    if any(item.get("lost") or item.get("refused") for item in items):
        sys.exit(1)


def _health_items(paths: Paths) -> list[dict[str, Any]]:
    """The master's; without one, its absence is explained, and the command fails."""
    try:
        return _items(paths, "GET /cluster/healthcheck")
    except SecmonError:
        for sentence in why_no_master(paths):
            echo_line(sentence, err=True)
        raise


def _items(paths: Paths, operation: str) -> list[dict[str, Any]]:
    require_installation(paths)
    outcome = local_call(paths, operation)
    if not isinstance(outcome, Outcome):
        raise click.ClickException("the cluster daemon sent an answer of another kind; see its log")
    for node, error in outcome.node_errors.items():
        echo_line(f"{node}: {error}", err=True)
    return outcome.items


def show_health(items: Sequence[Mapping[str, Any]]) -> None:
    """Print items of ``GET /cluster/healthcheck``: a line for each node, then who is master where a store of record
    decides it, then a sentence for each failure."""
    echo_table(_HEALTH, [_health_row(item) for item in items])
    for item in items:
        if mastership := item.get("mastership"):
            echo_line(_mastership_text(mastership))
    for sentence in troubles(items):
        echo_line(sentence)


def _mastership_text(found: Mapping[str, Any]) -> str:
    since = f" since {found['since']}" if found["since"] else ""
    return f"Term {found['term']}: {found['holder']} is the master{since}: {found['reason']}"


def _health_row(item: Mapping[str, Any]) -> list[str]:
    info, status = item["info"], item.get("status")
    row = [str(info.get(column, "")) for column in (*_MEMBER, "n_active_agents")]
    if status is None:  # the master, with which all others are compared
        return [*row, "-", "-", "-"]
    state = (
        "failing" if "sync_integrity_error" in status else "up to date" if status["sync_integrity_free"] else "behind"
    )
    checked = status["last_check_integrity"]["date_end_master"]
    return [*row, state, _seconds(checked), _seconds(status["last_keep_alive"])]


def _seconds(date: str) -> str:
    """A date of the API without its microseconds; other texts unchanged."""
    return f"{date[:19]}Z" if date.endswith("Z") else date


def troubles(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each failure in items of ``GET /cluster/healthcheck``."""
    for item in items:
        if trouble := (item.get("mastership") or {}).get("trouble"):
            yield f"No change is accepted: {trouble}"
        for one in (item.get("mastership") or {}).get("unable") or ():
            yield f"Cannot become master: {one['node']} ({one['address']}): {one['reason']}"
        if error := (item.get("status") or {}).get("sync_integrity_error"):
            yield f"Failing: {item['info']['name']} cannot take over the files of the master: {error}"
        for one in item.get("lost") or ():
            yield f"Lost: {one['name']} ({one['ip']}), last seen {_seconds(one['last_seen'])}"
        for one in item.get("refused") or ():
            yield f"Refused: {one['name']} ({one['ip']}) at {_seconds(one['time'])}: {one['reason']} ({one['code']})"
