"""Installed nodes whose daemons run on the event loop of the test."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from secmon.daemons.daemon import Context, find_factory
from secmon.daemons.daemon_host import DaemonHost
from secmon.daemons.supervisor_settings import read_supervisor_settings
from tests.folders import short_root
from tests.integration.kit import QUICK, RealNode, free_port, make_node


@contextmanager
def short_folder() -> Iterator[Path]:
    """Sockets below it have names that are short enough."""
    folder = Path(tempfile.mkdtemp(prefix="sm-", dir=short_root()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_master(folder: Path, **options: int) -> RealNode:
    """``options`` of the cluster daemon."""
    chosen: Mapping[str, int] = {"clusterd.enrol_port": free_port(), **_dotted(options)}
    return make_node(
        folder, "master", role="master", master="127.0.0.1", cluster_port=free_port(), api_port=free_port(),
        options=chosen,
    )  # fmt: skip


def install_worker(folder: Path, *, port: int, enrol_port: int, **options: int) -> RealNode:
    """``port``, ``enrol_port``: where it finds the master."""
    chosen = {"clusterd.enrol_port": enrol_port, **_dotted(options)}
    return make_node(folder, "worker", master="127.0.0.1", cluster_port=port, api_port=free_port(), options=chosen)


def ports_of(master: RealNode) -> dict[str, int]:
    """Where workers find it: ``port`` and ``enrol_port``."""
    settings = LinkSettings.of(load_main_config(master.paths).cluster, load_internal_options(master.paths))
    return {"port": settings.port, "enrol_port": settings.enrol_port}


@asynccontextmanager
async def daemon(node: RealNode, name: str) -> AsyncIterator[DaemonHost]:
    """One daemon of ``node``."""
    spec = next(one for one in read_supervisor_settings(node.paths).daemons if one.name == name)
    made = find_factory(spec.factory)(Context(name=name, paths=node.paths, single_process=True))
    host = DaemonHost(made, node.paths, None, QUICK["daemons.stop_timeout"])
    try:
        await host.start()
        yield host
    finally:
        await host.stop()


def _dotted(options: Mapping[str, int]) -> dict[str, int]:
    return {f"clusterd.{name}": value for name, value in options.items()}
