"""What a repetition of ``GET /alerts/stream`` answers."""

from typing import Any

import pytest

from tests.alerts.filled_store import fill
from tests.operations.alerts.raised import raised
from tests.operations.office import Office

pytestmark = pytest.mark.anyio

STREAM = "GET /alerts/stream"


async def tail(office: Office, user: str = "admin", /, **params: Any) -> tuple[list[int], str]:
    """Numbers of the alerts, and where to go on."""
    data = (await office.ask(STREAM, user, **params))["data"]
    return [int(one["id"].partition(".")[2]) for one in data["affected_items"]], data["position"]


async def test_only_new_alerts_come_each_once(office: Office) -> None:
    found, start = await tail(office)
    assert (found, start) == ([], "alpha=3~beta=2~gamma=1")
    fill(office.world.nodes["beta"].node.paths.alert_store, [raised(7, "001", 1), raised(8, "002", 2)])
    fill(office.world.nodes["gamma"].node.paths.alert_store, [raised(9, "004", 3)])
    found, position = await tail(office, position=start)
    assert found == [7, 8, 9]
    assert await tail(office, position=position) == ([], position)
    await office.caller("only", ("alerts:read", "agent:id:001", "allow"))
    assert await tail(office, "only", position=start) == ([7], position)
    assert await tail(office, position=start, search="n=8") == ([8], position)


async def test_a_store_that_was_built_again_is_followed_from_its_end(office: Office) -> None:
    assert await tail(office, position="alpha=900~beta=1") == ([4], "alpha=3~beta=2~gamma=1")
