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
    assert found == []
    assert start == position_of(alpha=6, beta=3, gamma=9)
    fill(office.world.nodes["beta"].node.paths.alert_store, [raised(7, "001", 1), raised(8, "002", 20)])
    fill(office.world.nodes["gamma"].node.paths.alert_store, [raised(9, "004", 30)])
    found, position = await tail(office, position=start)
    assert found == [7, 8, 9]
    assert await tail(office, position=position) == ([], position)
    await office.caller("only", ("alerts:read", "agent:id:001", "allow"))
    assert await tail(office, "only", position=start) == ([7], position)
    assert await tail(office, position=start, search="n=8") == ([8], position)


async def test_a_position_from_elsewhere_leads_to_the_end(office: Office) -> None:
    found, position = await tail(office, position=position_of(alpha=900, beta=2))
    assert (found, position) == ([4], position_of(alpha=6, beta=3, gamma=9))


def position_of(**seconds: int) -> str:
    """A position behind the alerts of these seconds after noon."""
    noon = 1_795_348_800
    return "~".join(f"{name}={(noon + second) * 1_000_000}" for name, second in seconds.items())
