"""``GET /``."""

import pytest

from secmon import API_VERSION
from tests.operations.world import World

pytestmark = pytest.mark.anyio


async def test_anybody_may_ask_what_answers(alone: World) -> None:
    data = (await alone.plain("GET /", "nobody")).data
    assert data["title"] == "secmon API REST"
    assert data["api_version"] == API_VERSION
    assert data["timestamp"] == "2026-01-01T00:00:00Z"
