"""``secmon cluster switchover``: another node becomes the master, without a wait for a lease."""

import asyncio
import time

import click

from secmon.cli.group import root_option
from secmon.cli.local_calls import local_call
from secmon.cli.service import require_running, wait_for
from secmon.cluster.leadership.client import LeaderClient, LeaderStatus
from secmon.cluster.leadership.term import Term
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.paths import Paths
from secmon.config.main import load_main_config


@click.command(short_help="Make another node the master.")
@click.argument("node", default="")
@click.option(
    "--timeout", type=click.IntRange(1, 3600), default=60, show_default=True, help="Seconds to wait for the new master."
)
@root_option
def switchover(paths: Paths, node: str, timeout: int) -> None:
    """Make NODE the master, or any other node, where a store of record decides who is master.

    The master gives its role away at once and becomes a worker; nothing is lost. Call it on any node that reaches the
    store of record, before you stop the master or upgrade it.

    \b
    Examples:
      secmon cluster switchover
      secmon cluster switchover node2 --root /opt/secmon

    Exit status: 0 the cluster has a new master that answers, 1 not, 2 wrong usage.
    """
    require_running(paths)
    if load_main_config(paths).cluster.store is None:
        raise click.ClickException("no store of record: see secmon cluster promote")
    began = time.monotonic()
    client = LeaderClient(paths)
    ended = asyncio.run(client.switch_over(node))
    if not wait_for(lambda: _answers(paths, ended), "Switching over", timeout):
        found = _status(client)
        raise click.ClickException(f"no other node has become master: {found.reason if found else 'no answer'}")
    found = _status(client)
    term = found.term if found else None
    if term is None:
        raise click.ClickException("secmon-leaderd does not answer any more; see its log")
    click.echo(f"Term {term.number}: {term.holder} is the master in place of {ended.holder}", nl=False)
    click.echo(f", {time.monotonic() - began:.1f} s after the request.")
    if node and term.holder != node:
        raise click.ClickException(f"{node} has not taken over: {found.reason if found else ''}")


def _status(client: LeaderClient) -> LeaderStatus | None:
    try:
        return asyncio.run(client.status())
    except SecmonError:
        return None


def _answers(paths: Paths, ended: Term) -> bool:
    """Whether a master of a later term answers this node."""
    found = _status(LeaderClient(paths))
    if found is None or found.term is None or found.term.number <= ended.number:
        return False
    try:
        outcome = local_call(paths, "GET /cluster/nodes", {"type": "master"})
    except SecmonError:
        return False
    names = [item["name"] for item in outcome.items] if isinstance(outcome, Outcome) else []
    return names == [found.term.holder]
