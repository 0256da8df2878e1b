"""Fixtures for every test, where their folders are, and who runs with whom."""

import pytest

from tests.folders import use_memory

SHARED = "shared_cluster"
"""The fixture of the cluster that many files share, and the group of its tests."""
_LONGEST_FIRST = ("cluster", "daemons", "fuzz", "fleet", "common")


def pytest_configure() -> None:
    use_memory()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files stay together, all that share a cluster too; what takes long is begun first, so that nobody is left over.

    Groups count with ``--dist loadgroup``.
    """
    groups = {item: _group(item) for item in items}
    items.sort(key=lambda item: _rank(groups[item]))
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(groups[item]))


def _group(item: pytest.Item) -> str:
    if SHARED in getattr(item, "fixturenames", ()):
        return SHARED
    return item.nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")


def _rank(group: str) -> int:
    if group == SHARED:
        return -1
    folder = group.partition("/")[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
