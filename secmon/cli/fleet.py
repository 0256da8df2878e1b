"""``secmon fleet``: simulated agents."""

import asyncio
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
import uvloop

from secmon.cli.group import FolderType, NumberType, echo_json
from secmon.simulator import PROFILES, Counters, Fleet, Misbehaviour, Options, Server, Timing
from secmon.simulator.dialect import Dialect
from secmon.simulator.events import KINDS
from secmon.simulator.host.host_reports import SCANS

T = TypeVar("T")
_SPARE_FILES = 200
_EVERY_TERMINAL, _EVERY_LOG = 1.0, 10.0  # seconds between two progress lines


def _each(read: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, Iterable[str]], tuple[T, ...]]:
    """A callback for repeated values; a ValueError of ``read`` is a usage error."""

    def callback(_context: click.Context, _parameter: click.Parameter, values: Iterable[str]) -> tuple[T, ...]:
        try:
            return tuple(read(value) for value in values)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _misbehaviour(text: str) -> tuple[Misbehaviour, int]:
    name, _, count = text.partition("=")
    if name not in {kind.value for kind in Misbehaviour} or (count and not count.isdecimal()):
        raise ValueError(f"{text!r}: write KIND or KIND=COUNT; kinds: {', '.join(kind.value for kind in Misbehaviour)}")
    return Misbehaviour(name), int(count or 1)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip("!") or '"' in key:
        raise ValueError(f"{text!r}: write KEY=VALUE; a hidden label has ! before its key")
    return key, value


@click.command()
@click.argument("servers", nargs=-1, required=True, callback=_each(Server.parse))
@click.option("--agents", "-n", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many.")
@click.option("--name", "prefix", default="agent", show_default=True, help="Their names are NAME-00001 and so on.")
@click.option(
    "--keys",
    type=FolderType(),
    help="Folder that keeps their keys: with it the next run has the same agents.",
)
@click.option(
    "--password-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Enrolment password."
)
@click.option("--group", "groups", multiple=True, help="Group to enrol into; may be repeated.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_each(_label),
    metavar="KEY=VALUE",
    help="Label of every agent; may be repeated.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(list(PROFILES)),
    help="Kind of host; may be repeated. Default: all in turn.",
)
@click.option(
    "--agent-version",
    "versions",
    multiple=True,
    callback=_each(lambda text: Dialect.of(text).version),
    default=["v4.8.2"],
    show_default=True,
    help="May be repeated: the agents use them in turn.",
)
@click.option(
    "--cipher",
    type=click.Choice(["auto", "aes", "blowfish"]),
    default="auto",
    show_default=True,
    help="auto: what their version uses.",
)
@click.option(
    "--rate", type=NumberType(0, 10_000), default=0.0, show_default=True, help="Events a second of each agent."
)
@click.option(
    "--send",
    "content",
    multiple=True,
    type=click.Choice(KINDS),
    default=["logs"],
    show_default=True,
    help="Kinds of events; may be repeated.",
)
@click.option(
    "--scan",
    "scans",
    multiple=True,
    type=click.Choice(SCANS),
    help="What they report of their hosts: files, inventory, assessments, rootkit checks; may be repeated.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same events.")
@click.option(
    "--speed",
    type=NumberType(0.1, 1000),
    default=1.0,
    show_default=True,
    help="Factor for all timers: 10 makes a keepalive each second.",
)
@click.option(
    "--misbehave",
    multiple=True,
    callback=_each(_misbehaviour),
    metavar="KIND[=COUNT]",
    help="This number of agents misbehaves; may be repeated. Kinds: "
    + ", ".join(kind.value for kind in Misbehaviour)
    + ".",
)
@click.option(
    "--unpack",
    type=FolderType(),
    help="Folder to write the group files of each agent into.",
)
@click.option("--seconds", type=NumberType(min=0, min_open=True), help="Stop after this time. Default: at Ctrl-C.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the counters as JSON at the end.")
def fleet(servers: tuple[Server, ...], agents: int, seconds: float | None, as_json: bool, **chosen: Any) -> None:
    """Run simulated agents against nodes.

    They enrol, connect, send keepalives and events, receive group files, answer requests and obey commands.

    A server is HOST, HOST:PORT or HOST:PORT:ENROLMENT_PORT, with udp:// in front for datagrams. The agents start
    spread over the servers and go to the next one when theirs is lost.

    \b
    Examples:
      secmon fleet 127.0.0.1
      secmon fleet node1 node2 node3 --agents 1000 --rate 5 --keys ./fleet
      secmon fleet udp://node1:1514 --agent-version v3.13.6 --profile centos-7
      secmon fleet node1 --agents 100 --misbehave flood --misbehave random=5

    Exit status: 0 every agent that behaves was connected at the end, 1 some were not, 2 wrong usage.
    """
    made = _fleet(servers, agents, chosen)
    _allow_files(agents)
    missing = uvloop.run(_run(made, seconds))
    if as_json:
        reasons = {"refusals": dict(made.refusals), "failures": dict(made.failures)}
        echo_json({**made.counters.as_dict(), "not_connected": missing, **reasons})
    sys.exit(1 if missing else 0)


def _fleet(servers: tuple[Server, ...], agents: int, chosen: dict[str, Any]) -> Fleet:
    password = chosen["password_file"]
    speed = chosen["speed"]
    options = Options(
        timing=replace(Timing().scaled(1 / speed), connect_wait=Timing.connect_wait),
        seed=chosen["seed"],
        versions=tuple(chosen["versions"]),
        cipher=chosen["cipher"],
        groups=chosen["groups"],
        password=password.read_text().split("\n", 1)[0] if password else "",
        labels=dict(chosen["labels"]),
        events_per_second=chosen["rate"],
        content=tuple(chosen["content"]),
        scans=tuple(chosen["scans"]),
        unpack=chosen["unpack"],
        misbehave=dict(chosen["misbehave"]),
    )
    if sum(options.misbehave.values()) > agents:
        raise click.UsageError(f"--misbehave names more agents than the {agents} there are")
    profiles = [PROFILES[name] for name in chosen["profiles"]] or list(PROFILES.values())
    return Fleet(servers, agents, options=options, prefix=chosen["prefix"], profiles=profiles, keys=chosen["keys"])


def _allow_files(agents: int) -> None:
    """Raise the limit of open files; a fleet needs one for each agent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = agents + _SPARE_FILES
    if soft >= wanted:
        return
    if hard < wanted:
        raise click.ClickException(
            f"{agents} agents need {wanted} open files, the limit is {hard}: ulimit -Hn {wanted}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _run(made: Fleet, seconds: float | None) -> int:
    """Run until stopped; the number of agents without misbehaviour that were not connected then."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    async with made:
        progress = asyncio.create_task(_progress(made))
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), seconds)
        finally:
            progress.cancel()
            await asyncio.gather(progress, return_exceptions=True)
        _show(made, 0.0, last=True)
        return made.not_connected


async def _progress(made: Fleet) -> None:
    """A line that is written over on terminals, a new line now and then elsewhere."""
    events, then = 0, time.monotonic()
    while True:
        await asyncio.sleep(_EVERY_TERMINAL if sys.stderr.isatty() else _EVERY_LOG)
        now = time.monotonic()
        _show(made, (made.counters.events - events) / (now - then), last=False)
        events, then = made.counters.events, now


def _show(made: Fleet, rate: float, *, last: bool) -> None:
    text = _line(made.counters, len(made.agents), rate)
    if made.refusals:
        said, times = made.refusals.most_common(1)[0]
        text += f"; refused {times} times: {said.splitlines()[0][:60]}"
    if made.failures and made.not_connected:
        reason, times = made.failures.most_common(1)[0]
        text += f"; failed {times} times: {reason}"
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=last, err=True)
    else:
        click.echo(text, err=True)


def _line(counters: Counters, agents: int, rate: float) -> str:
    parts = [
        f"{counters.connected} of {agents} agents connected",
        f"{counters.keepalives} keepalives",
        f"{counters.pushes} group files",
        f"{counters.requests + counters.commands} commands",
        f"{counters.events} events" + (f" ({rate:.0f}/s)" if rate else ""),
    ]
    if counters.losses or counters.connects_failed:
        parts.append(f"{counters.losses} losses, {counters.connects_failed} failed connections")
    return ", ".join(parts)
