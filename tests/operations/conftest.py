"""Nodes for operations to run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.operations.all import EXECUTABLE
from tests.operations.inventory.hosts import register
from tests.operations.office import Office
from tests.operations.world import World, make_security_db


@pytest.fixture(scope="session")
def security_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("security") / "security.db"
    make_security_db(path)
    return path


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    """A world without nodes, for tests that start their own."""
    world = World(tmp_path, security_db)
    yield world
    world.close()


@pytest.fixture
def alone(empty_world: World) -> World:
    """One node without a cluster."""
    empty_world.start(clustered=False)
    return empty_world


@pytest.fixture
def cluster(empty_world: World) -> World:
    """The master alpha with the workers beta and gamma; delta is expected and away."""
    for name in ("alpha", "beta", "gamma"):
        empty_world.start(name)
    empty_world.membership.gone.append("delta")
    return empty_world


@pytest.fixture
def hosts(tmp_path: Path, security_db: Path) -> Iterator[Office]:
    """The master alpha with the workers beta and gamma, whose agents are those of ``inventory.hosts``."""
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    for name in ("alpha", "beta", "gamma"):
        world.start(name)
    register(world)
    yield Office(world)
    world.close()
