"""``secmon doctor``: what is wrong with this node and its host, and what to do."""

import sys
from collections import Counter
from collections.abc import Iterator

import click
import msgspec

from secmon.cli.cluster import troubles
from secmon.cli.group import echo_json, json_option, require_installation, root_option
from secmon.cli.local_calls import local_call
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.logfile.text import one_line
from secmon.common.outcome import Outcome
from secmon.common.paths import Paths
from secmon.doctor.examine import examine
from secmon.doctor.finding import Finding, ok, problem
from secmon.doctor.network import check_answers, check_clocks
from secmon.operations.nodes.clocks import NodeClock

UNKNOWN_OPERATION = 3009
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command(short_help="Say what is wrong with this node, and what to do.")
@root_option
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Leave out what is in order.")
def doctor(paths: Paths, as_json: bool, quiet: bool) -> None:
    """Examine this node and its host: disk, clock, service user, configuration, stores, files with secrets,
    certificates, limits, ports, names and reachability of the other nodes, the store of record.

    Each line says what is so, and what to do about it. Nothing is changed. The node may run or not; the examination of
    a node that does not run says whether it could. Stores are read as a whole: some seconds for each gigabyte.

    \b
    Examples:
      secmon doctor --root /opt/secmon
      secmon doctor --quiet --json

    Exit status: 0 no problem (there may be warnings), 1 problems, 2 wrong usage.
    """
    require_installation(paths)
    found: list[Finding] = []
    for finding in examine(paths, SystemClock(), lambda: _cluster(paths)):
        found.append(finding)
        if not as_json and not (quiet and finding.state == "ok"):
            state = click.style(f"{finding.state:<8}", fg=_COLOURS[finding.state])
            click.echo(state + one_line(str(finding)[8:]))
    counts = Counter(finding.state for finding in found)
    if as_json:
        shown = [finding for finding in found if not (quiet and finding.state == "ok")]
        echo_json({"counts": counts, "findings": msgspec.to_builtins(shown)})
    else:
        click.echo(", ".join(f"{counts[state]} {state}" for state in ("problem", "warning", "ok")) + ".")
    sys.exit(1 if counts["problem"] else 0)


def _cluster(paths: Paths) -> Iterator[Finding]:
    """What this node's cluster daemon says of the nodes. Raises SecmonError when it does not answer."""
    outcome = local_call(paths, "GET /cluster/healthcheck")
    items = outcome.items if isinstance(outcome, Outcome) else []
    sentences = list(troubles(items))
    for sentence in sentences:
        yield problem("nodes", sentence, "run secmon doctor there, and see logs/cluster.log here")
    if not sentences:
        yield ok("nodes", f"{len(items)} are connected and up to date")
    yield from _answering(paths)


def _answering(paths: Paths) -> Iterator[Finding]:
    """Which nodes answer the master, and their clocks. Raises SecmonError."""
    try:
        outcome = local_call(paths, "GET /internal/clocks")
    except SecmonError as error:
        if error.code != UNKNOWN_OPERATION:
            raise
        return  # the master is of an earlier release
    if isinstance(outcome, Outcome):
        yield from check_answers(outcome.node_errors)
        yield from check_clocks(msgspec.convert(outcome.items, list[NodeClock]))
