"""The simulated agents of the demo."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from secmon.simulator import Counters, Fleet, Options, Server, Timing
from secmon.simulator.host.host_reports import SCANS
from secmon.simulator.key_folder import KeyFolder

_SECONDS = 30.0
_VERSIONS = ("v4.8.2", "v4.8.2", "v4.7.5", "v4.3.11", "v3.13.6")
_TIMING = Timing(scan=30.0, retry=1.0, max_retries=1, after_enrolment=0.5, enrolment_retry=1.0, ack_wait=10.0)
"""Agents in the field take their time; those of the demo find another node at once."""


def agents_folder(demo: Path) -> KeyFolder:
    """Where the agents' keys lie."""
    return KeyFolder(demo / "agents")


@asynccontextmanager
async def demo_agents(demo: Path, servers: Sequence[Server], count: int, ending: asyncio.Event) -> AsyncIterator[None]:
    """Run ``count`` agents, spread over the nodes; yields when they are connected, after half a minute, or when
    ``ending`` is set."""
    if not count:
        yield
        return
    options = Options(
        timing=_TIMING, versions=_VERSIONS, labels={"environment": "demo"}, events_per_second=0.5, scans=SCANS
    )
    fleet = Fleet(servers, count, options=options, keys=agents_folder(demo).folder)
    async with fleet:
        try:
            await _connected(fleet, count, ending)
        except TimeoutError:
            reasons = "; ".join(fleet.refusals) or "no node answered"
            click.echo(f"{fleet.not_connected} of the {count} agents are not connected yet: {reasons}", err=True)
        fleet.save()  # their keys outlive a demo that is killed
        yield


async def _connected(fleet: Fleet, count: int, ending: asyncio.Event) -> None:
    with click.progressbar(length=count, label="Connecting agents") as bar:

        def complete(counters: Counters) -> bool:
            bar.update(counters.connected - bar.pos)
            return counters.connected == count or ending.is_set()

        await fleet.until(complete, seconds=_SECONDS)
