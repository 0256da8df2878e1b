"""The validation of a node's ruleset by many callers at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from secmon.cluster.analysis_client import EngineClient
from secmon.cluster.node import Changed, Finding
from secmon.common.paths import Paths
from secmon.daemons.ruleset_validation import NodeRulesetValidation

pytestmark = pytest.mark.anyio


class SlowEngine(EngineClient):
    """Gives its verdict on the files as they were when it was asked."""

    def __init__(self) -> None:
        self.files = "first"
        self.asked = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def validate(self, changed: Changed, *, blocking: bool) -> Sequence[Finding]:
        self.asked += 1
        seen = self.files
        self.begun.set()
        await self.go_on.wait()
        return [Finding(error=True, text=seen, file="")]


async def test_callers_share_a_validation_that_sees_their_changes(tmp_path: Path) -> None:
    engine = SlowEngine()
    validation = NodeRulesetValidation(engine, Paths(tmp_path))
    first = asyncio.create_task(validation.findings())
    await engine.begun.wait()
    engine.files = "second"
    others = [asyncio.create_task(validation.findings()) for _ in range(20)]
    others[0].cancel()
    engine.go_on.set()
    assert [one.text for one in await first] == ["first"]
    for other in others[1:]:
        assert [one.text for one in await other] == ["second"]
    assert engine.asked == 2
