"""``secmon requests``: requests to the API of all nodes that were slow, and where their time went."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import click
import msgspec

from secmon.cli.group import LazyGroup, echo_json, echo_line, echo_table, json_option, require_installation, root_option
from secmon.cli.local_calls import local_call
from secmon.cluster.slow_requests import CAPACITY, SlowRequest
from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.logfile.text import one_line
from secmon.common.outcome import Outcome
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from secmon.config.values import duration, seconds
from secmon.daemons.control_sockets import SupervisorClient

_COLUMNS = ("seconds", "time", "status", "user", "node", "request")
_SINCE = duration(low=1, high=31 * 86_400)


def _parse_since(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    if not _SINCE.test(value):
        raise click.BadParameter(f"{value!r} is not {_SINCE.allowed}")
    return timedelta(seconds=seconds(value) or 0)


@click.group(cls=LazyGroup, short_help="Show which requests were slow, and why.")
def requests() -> None:
    """Look at the requests that the API of all nodes has answered.

    Example:  secmon requests slow --root /opt/secmon
    """


@requests.command(short_help="Show the slowest requests of the last hour, over all nodes.")
@root_option
@json_option
@click.option(
    "--since", default="1h", show_default=True, callback=_parse_since, help="How far back: 10m, 1h, 2d; s without unit."
)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, CAPACITY), help="How many requests to show."
)
def slow(paths: Paths, as_json: bool, since: timedelta, limit: int) -> None:
    """Show the slowest requests over all nodes, and what each node has spent on them, in seconds.

    A request is slow when its answer takes longer than apid.slow_request_ms of etc/local_internal_options.conf: 1000
    unless you change it, 0: none is. Each node remembers its 200 slowest requests since its start. The log of requests
    (logs/api.log) of the node that was asked has a line about each of them too, with the id of the request.

    \b
    Steps (store, search and daemon are parts of login or function):
      login        who asks: token or password
      handover     from the API's daemon to the cluster's, on one node
      revision     the node had to catch up with changes of users and roles
      permission   what the user may touch
      states       whether the daemons of the node run
      function     the operation itself
      store        transactions of the stores, with the wait for their lock
      store of record  the database
      search       alerts, with the wait for one of the threads
      daemon       another daemon of the node, or an agent behind it
      confirmation other nodes had to take a change over
      master       there was no master
      queue        other calls to that node were first
      network      from node to node; all of the time of a node that does not answer
      query        q, sort, search and select
      rendering    the answer's text

    \b
    Examples:
      secmon requests slow
      secmon requests slow --since 10m --limit 5
      secmon requests slow --json --since 1d

    Exit status: 0 shown, 1 this node or the master does not answer, 2 wrong usage.
    """
    require_installation(paths)
    found, troubles = _slow_requests(paths, since, limit)
    for node, error in troubles.items():
        echo_line(f"{node}: {error}", err=True)
    if as_json:
        echo_json(msgspec.to_builtins(found))
    elif found:
        show(found)
    else:
        click.echo(_none(paths))


def _slow_requests(paths: Paths, since: timedelta, limit: int) -> tuple[Sequence[SlowRequest], Mapping[str, str]]:
    """Those of all nodes, and why nodes did not answer. Raises SecmonError."""
    if load_main_config(paths).cluster.disabled:
        return asyncio.run(SupervisorClient(paths).slow_requests(since=since, limit=limit)), {}
    params = {"seconds": int(since.total_seconds()), "limit": limit}
    outcome = local_call(paths, "GET /internal/slow-requests", params)
    if not isinstance(outcome, Outcome):
        raise SecmonError(3036)
    return msgspec.convert(outcome.items, list[SlowRequest]), outcome.node_errors


def show(found: Sequence[SlowRequest]) -> None:
    """Print a line for each request, then what its time was spent on."""
    rows = [
        (f"{each.seconds:.3f}", iso_z(each.time), str(each.status), each.user, each.node, f"{each.method} {each.path}")
        for each in found
    ]
    echo_table(_COLUMNS, rows)
    for each in found:
        click.echo(f"\n{one_line(each.id or 'login')}\n  " + one_line(each.shares).replace("; ", "\n  "))


def _none(paths: Paths) -> str:
    if not load_internal_options(paths).get("apid.slow_request_ms"):
        return "Requests are not looked into: apid.slow_request_ms is 0."
    return "No request was slow."
