"""Fixtures of the fleet's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.event_loops import Backend
from tests.simulator.server import ScriptedServer, scripted


@pytest.fixture
async def server(tmp_path: Path, anyio_backend: Backend) -> AsyncIterator[ScriptedServer]:
    """A scripted server that runs."""
    async with scripted(tmp_path) as running:
        yield running
