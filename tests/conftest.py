"""Fixtures for every test, where their folders are, and who runs with whom."""

import gc
import os
import shutil
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from secmon.common.collector import collector_paused
from tests.event_loops import ASYNCIO, Backend
from tests.folders import short_root, use_memory
from tests.slow_tests import slow_tests

pytest_plugins = ["tests.postgres"]

_FOLDER = pytest.StashKey[str]()
"""Temporary folder of this run; empty when it is kept for what failed."""

SHARED_CLUSTER = "the shared cluster"
_USES_IT = tuple(
    f"integration/test_{name}"
    for name in (
        *("answers", "agents", "agent_commands", "assessments", "groups", "host_data", "integrity", "moving_hosts"),
        *("attacks", "console", "metrics", "operating", "ruleset", "silent_sources", "survival", "synchronization"),
    )
)
_LONGEST_FIRST = (SHARED_CLUSTER, "integration", "daemons", "fuzz", "simulator", "operations", "cluster")


def group_of(nodeid: str) -> str:
    """Tests of one group run in one process, one after the other: those of a file, and all of the shared cluster."""
    file = nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")
    return SHARED_CLUSTER if file in _USES_IT else file


def pytest_configure(config: pytest.Config) -> None:
    use_memory()
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        # pytest's own name grows with the number of its runs, and sockets below it must fit into 107 bytes.
        config.option.basetemp = config.stash[_FOLDER] = str(short_root() / f"pytest-{os.getpid()}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus != 0:
        session.config.stash[_FOLDER] = ""


def pytest_unconfigure(config: pytest.Config) -> None:
    """All workers have ended by now."""
    if folder := config.stash.get(_FOLDER, ""):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests that tests/slow.txt names")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded stays: the collector would walk through it for a second at a time, in the middle of tests."""
    with collector_paused():
        result = yield
    gc.freeze()
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow files start first, so that no process works alone at the end."""

    def rank(item: pytest.Item) -> int:
        folder = group_of(item.nodeid).partition("/")[0]
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    items.sort(key=rank)
    if config.getoption("fast"):
        slow = slow_tests()
        left_out = [item for item in items if _name(item) in slow]
        items[:] = [item for item in items if _name(item) not in slow]
        config.hook.pytest_deselected(items=left_out)


def _name(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("[")[0]


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Groups | None:
    """``--dist loadfile`` with the groups of here."""
    return _Groups(config, log) if config.getvalue("dist") == "loadfile" else None


# No test measures time: on a busy machine the first example alone may take seconds.
settings.register_profile("secmon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("secmon")


@pytest.fixture(scope="session")
def anyio_backend() -> Backend:
    return ASYNCIO
