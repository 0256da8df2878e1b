"""``/alerts/acknowledgements``, and acknowledged alerts among the others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from secmon.alerts import acknowledgements as module
from secmon.common.errors import SecmonError
from secmon.master.security_maintenance import SecurityMaintenance
from tests.alerts.filled_store import fill
from tests.operations.alerts.raised import raised
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer

pytestmark = pytest.mark.anyio

LIST, PUT, DELETE = (f"{method} /alerts/acknowledgements" for method in ("GET", "PUT", "DELETE"))
READ = "GET /alerts"


def names(*numbers: int) -> list[str]:
    return [f"1700000000.{number}" for number in numbers]


def replicate(office: Office) -> None:
    """What the nodes do of themselves, where they are processes."""
    alpha, *others = (one.node.security for one in office.world.nodes.values())
    for store in others:
        store.apply_snapshot(alpha.snapshot())


async def acknowledge(office: Office, *numbers: int, user: str = "admin", comment: str = "known") -> list[str]:
    data = (await office.ask(PUT, user, body={"ids": names(*numbers), "comment": comment}))["data"]
    replicate(office)
    return [one["id"] for one in data["affected_items"]]


async def found(office: Office, user: str = "admin", /, **params: Any) -> list[int]:
    """Numbers of the alerts of all pages, in pages of two; the total is their number."""
    numbers: list[int] = []
    cursor: dict[str, Any] = {}
    while True:
        data = (await office.ask(READ, user, limit=2, **params, **cursor))["data"]
        numbers += [int(one["id"].partition(".")[2]) for one in data["affected_items"]]
        if data["next"] is None:
            assert data["total_affected_items"] == len(numbers)
            return numbers
        cursor = {"cursor": data["next"]}


async def test_alerts_are_acknowledged_and_shown_so(office: Office) -> None:
    body = await office.ask(PUT, body={"ids": names(2, 5, 77), "comment": "known"})
    assert [(one["id"], one["agent"], one["user"]) for one in body["data"]["affected_items"]] == [
        ("1700000000.2", "002", "admin"),
        ("1700000000.5", "000", "admin"),
    ]
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(1770, names(77))]
    replicate(office)
    [one] = (await office.ask("GET /alerts/{alert_id}", alert_id="1700000000.2", seconds=1))["data"]["affected_items"]
    assert (one["acknowledged"]["user"], one["acknowledged"]["comment"]) == ("admin", "known")
    [shown] = (await office.ask(READ, agents_list=["000"], select=["acknowledged"]))["data"]["affected_items"]
    assert shown["acknowledged"]["comment"] == "known"
    assert all(
        "acknowledged" not in one for one in (await office.ask(READ, acknowledged=False))["data"]["affected_items"]
    )
    await acknowledge(office, 2, comment="looked at again")
    listed = (await office.ask(LIST))["data"]["affected_items"]
    assert {one["id"]: one["comment"] for one in listed} == {
        "1700000000.2": "looked at again",
        "1700000000.5": "known",
    }
    assert [one["id"] for one in (await office.ask(DELETE, alert_ids=names(5)))["data"]["affected_items"]] == names(5)
    replicate(office)
    assert await office.failed(DELETE, alert_ids=names(5)) == [(1777, names(5))]
    assert await found(office, acknowledged=True) == [2]


async def test_the_filter_is_exact_over_pages_and_counts(office: Office) -> None:
    assert await found(office, acknowledged=True) == []
    assert await found(office, acknowledged=False) == [6, 5, 3, 4, 2, 1]
    await acknowledge(office, 1, 2, 4, 6)
    assert await found(office, acknowledged=True) == [6, 4, 2, 1]
    assert await found(office, acknowledged=False) == [5, 3]
    assert await found(office, acknowledged=True, agents_list=["001"]) == [4, 1]
    top = await office.ask("GET /alerts/top", field="agent.id", since="2026-11-22", acknowledged=True)
    assert {one["value"]: one["count"] for one in top["data"]["affected_items"]} == {"001": 2, "002": 1, "004": 1}
    since = {"since": "2026-11-22T12:00:00Z", "until": "2026-11-22T13:00:00Z"}
    for wanted, count in ((True, 4), (False, 2)):
        data = (await office.ask("GET /alerts/histogram", acknowledged=wanted, **since))["data"]
        assert data["alerts"] == count
    # An alert of another node with the same id is another alert.
    fill(office.world.nodes["gamma"].node.paths.alert_store, [raised(1, "004", 40)])
    assert await found(office, acknowledged=True) == [6, 4, 2, 1]
    assert await found(office, acknowledged=False) == [1, 5, 3]


async def test_a_caller_acknowledges_alerts_of_permitted_agents_only(office: Office) -> None:
    rights = ("alerts:read", "alerts:acknowledge")
    await office.caller("only", *((right, "agent:id:001", "allow") for right in rights))
    await office.caller("of-002", (rights[0], "agent:id:002", "allow"))
    assert await acknowledge(office, 1, 2, 3, 4, user="only") == names(1, 4)
    await acknowledge(office, 3)
    assert {one["id"] for one in (await office.ask(LIST, "only"))["data"]["affected_items"]} == set(names(1, 4))
    assert [one["id"] for one in (await office.ask(LIST, "of-002"))["data"]["affected_items"]] == names(3)
    assert await office.failed(DELETE, "only", alert_ids=names(3)) == [(1777, names(3))]
    assert (await office.refused(PUT, "of-002", body={"ids": names(3)})).code == 4000
    assert (await office.refused(DELETE, "of-002", alert_ids=names(3))).code == 4000


async def test_a_node_that_does_not_answer_is_named(office: Office) -> None:
    office.world.peers["gamma"] = AnsweringPeer(SecmonError(3022, ids=("gamma",)))
    body = await office.ask(PUT, body={"ids": names(1, 6)})
    assert [one["id"] for one in body["data"]["affected_items"]] == names(1)
    assert list(body["dapi_errors"]) == ["gamma"]


async def test_acknowledgements_are_bounded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    await acknowledge(office, 1, 2)
    await acknowledge(office, 5)
    assert {one["id"] for one in (await office.ask(LIST))["data"]["affected_items"]} == set(names(2, 5))


async def test_those_of_alerts_that_are_no_longer_kept_are_deleted(office: Office) -> None:
    office.world.clock.set_wall(datetime(2026, 11, 22, 12, 1, tzinfo=UTC))
    await acknowledge(office, 1, 2)
    maintenance = SecurityMaintenance(office.node)
    for days, left in ((30, 2), (30.5, 0)):
        office.world.clock.set_wall(datetime(2026, 11, 22, 12, 0, tzinfo=UTC) + timedelta(days=days))
        maintenance.forget_triage()
        assert len((await office.ask(LIST))["data"]["affected_items"]) == left
