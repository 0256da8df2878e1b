"""``secmon demo``: a cluster of three nodes on this host."""

import asyncio
import sys
from pathlib import Path

import click

from secmon.cli.group import FolderType, installation_paths
from secmon.daemons.demo.nodes import AGENTS, FIRST_API_PORT, Demo


@click.command(short_help="Run a master and two workers here, to try the product.")
@click.option(
    "--dir",
    "folder",
    type=FolderType(),
    default=Path("demo"),
    show_default=True,
    help="Folder of the nodes; created if it does not exist, kept for the next run.",
)
@click.option("--workers", type=click.IntRange(0, 16), default=2, show_default=True, help="Workers beside the master.")
@click.option(
    "--agents",
    type=click.IntRange(0, 1000),
    default=AGENTS,
    show_default=True,
    help="Simulated agents that connect to the nodes.",
)
@click.option(
    "--api-port",
    type=click.IntRange(1, 65000),
    default=FIRST_API_PORT,
    show_default=True,
    help="Port of the master's API; workers take the next ones. Ports in use are passed over.",
)
@click.option("--fresh", is_flag=True, help="Remove an earlier demo in the folder first.")
def demo(folder: Path, workers: int, agents: int, api_port: int, fresh: bool) -> None:
    """Run a master and two workers on this host, to try the product in a minute.

    A dozen simulated agents connect to the nodes. Prints the addresses, the administrator's password and requests to
    paste. Ctrl-C stops everything; the next run continues with the same data.

    Example:  secmon demo --dir ./demo --workers 2

    Exit status: 0 stopped cleanly, 1 could not start, 2 wrong usage.
    """
    root = installation_paths(folder / "worker99").root.parent  # the longest name of a node
    sys.exit(asyncio.run(Demo(root, workers=workers, agents=agents, api_port=api_port).run(fresh=fresh)))
