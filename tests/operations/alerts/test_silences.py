"""``/alerts/silences`` over three nodes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from secmon.alerts import silences as silences_module
from secmon.common.errors import SecmonError
from tests.offenders import Offenders
from tests.operations.office import Office

pytestmark = pytest.mark.anyio

LIST, MAKE, PREVIEW = "GET /alerts/silences", "POST /alerts/silences", "GET /alerts/silences/preview"
CHANGE, DELETE = "PUT /alerts/silences/{silence_id}", "DELETE /alerts/silences/{silence_id}"
BEFORE = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)
BODY = {"until": "now+4h", "reason": "a test"}


@pytest.fixture(autouse=True)
def morning(office: Office) -> None:
    office.world.clock.set_wall(BEFORE)


async def ids(office: Office, user: str = "admin", /, **params: Any) -> list[int]:
    return [one["id"] for one in (await office.ask(LIST, user, **params))["data"]["affected_items"]]


async def test_a_silence_is_made_changed_ended_and_deleted(office: Office) -> None:
    made = await office.one(MAKE, q="rule.level<12", level="3-7", rule_ids=["5716"], group="web", body=BODY)
    assert made == {
        "id": 100,
        "state": "in_force",
        "since": "2026-11-22T11:00:00Z",
        "until": "2026-11-22T15:00:00Z",
        "created": "2026-11-22T11:00:00Z",
        "user": "admin",
        "reason": "a test",
        "filters": {"q": "rule.level<12", "level": "3-7", "rule_ids": ["5716"], "group": "web"},
        "agents": {"ids": ["002", "003", "1000"], "excluded": False},
    }
    assert await office.one(LIST) == made | {"alerts": 2}
    assert await office.one(LIST, counts=False) == made
    changed = await office.one(CHANGE, silence_id="100", body={"until": "2026-11-23", "reason": "longer"})
    assert changed == made | {"until": "2026-11-23T00:00:00Z", "reason": "longer"}
    office.world.clock.set_wall(BEFORE + timedelta(hours=1, seconds=3))
    ended = await office.one(CHANGE, silence_id="100", body={"until": "now"})
    assert (ended["state"], ended["until"]) == ("ended", "2026-11-22T12:00:03Z")
    assert (await office.one(LIST))["alerts"] == 1, "the other one was raised at its end"
    assert await ids(office, ended_days=0) == []
    assert await office.failed(CHANGE, silence_id="100", body={"until": "now+1h"}) == [(1776, [100])]
    assert await office.one(DELETE, silence_id="100") == ended
    assert await ids(office) == []
    assert await office.failed(DELETE, silence_id="100") == [(1774, [100])]
    assert await office.failed(CHANGE, silence_id="100", body={"reason": "none"}) == [(1774, [100])]


async def test_a_planned_silence(office: Office) -> None:
    made = await office.one(MAKE, agents_list=["001"], body=BODY | {"since": "now+1h"})
    assert (made["state"], made["since"]) == ("planned", "2026-11-22T12:00:00Z")
    assert made["agents"] == {"ids": ["001"], "excluded": False}
    assert (await office.one(CHANGE, silence_id="100", body={"until": "now"}))["state"] == "ended"


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"body": BODY}, 1773),
    ({"level": "0-16", "body": BODY}, 1773),
    ({"level": "0-99", "body": BODY}, 1773),
    ({"level": "1", "body": BODY | {"until": "now"}}, 1776),
    ({"level": "1", "body": BODY | {"until": "2026-11-22T10:00:00Z"}}, 1776),
    ({"level": "1", "body": BODY | {"until": "now+366d"}}, 1776),
    ({"level": "1", "body": BODY | {"until": "now+999999999w"}}, 1776),
    ({"level": "1", "body": BODY | {"since": "2026-11-22T10:59:59Z"}}, 1776),
    ({"level": "1", "body": BODY | {"since": "now+5h"}}, 1776),
    ({"level": "1", "body": BODY | {"until": "2026-13-45"}}, 1412),
    ({"q": "full_log=x", "body": BODY}, 1408),
    ({"q": "(", "body": BODY}, 1407),
    ({"search": "...", "body": BODY}, 1407),
    ({"group": "nothing", "body": BODY}, 1773),
]


async def test_what_no_silence_can_be(office: Office) -> None:
    with Offenders() as offenders:
        for params, code in WRONG:
            with offenders.row(params):
                try:
                    found = await office.failed(MAKE, **params)
                except SecmonError as error:
                    found = [(error.code, [])]
                assert [one[0] for one in found] == [code]
    assert await ids(office) == []
    assert (await office.refused(CHANGE, silence_id="1", body={})).code == 4001


async def test_a_caller_silences_permitted_agents_only(office: Office) -> None:
    kinds = ("create", "read", "update", "delete")
    await office.caller("only", *((f"silences:{kind}", "agent:id:001", "allow") for kind in kinds))
    await office.caller("of-web", *((f"silences:{kind}", "agent:group:web", "allow") for kind in kinds))
    await office.caller("none", ("alerts:read", "agent:id:*", "allow"))
    of_all = (await office.one(MAKE, level="3", body=BODY))["id"]
    assert (await office.one(LIST))["agents"] == {"ids": [], "excluded": True}
    made = await office.one(MAKE, "only", level="3", body=BODY)
    assert made["agents"] == {"ids": ["001"], "excluded": False}
    assert (await office.one(MAKE, "of-web", level="3", body=BODY))["agents"]["ids"] == ["002", "003", "1000"]
    assert (await office.refused(MAKE, "only", agents_list=["001", "002"], body=BODY)).code == 4000
    assert (await office.refused(MAKE, "none", level="3", body=BODY)).code == 4000
    assert await ids(office, "only") == [made["id"]]
    assert await ids(office, "none") == []
    assert len(await ids(office)) == 3
    for name, body in ((CHANGE, {"body": {"until": "now"}}), (DELETE, {})):
        assert await office.failed(name, "only", silence_id=str(of_all), **body) == [(4000, [of_all])]
        assert (await office.one(name, "only", silence_id=str(made["id"]), **body))["id"] == made["id"]
        assert (await office.refused(name, "none", silence_id=str(of_all), **body)).code == 4000


async def test_what_a_silence_would_have_covered(office: Office) -> None:
    office.world.clock.set_wall(BEFORE + timedelta(days=2))
    found = await office.one(PREVIEW, q="rule.id=5716")
    assert (found["alerts"], found["highest_level"], found["error"]) == (6, 12, 0)
    assert found["rules"] == [{"value": "5716", "count": 6}]
    assert found["agents"][:2] == [{"value": "001", "count": 2}, {"value": "002", "count": 2}]
    assert [(day["time"], day["count"]) for day in found["days"] if day["count"]] == [("2026-11-22T00:00:00Z", 6)]
    assert len(found["days"]) == 8
    nothing = await office.one(PREVIEW, agents_list=["777"])
    assert (nothing["alerts"], nothing["highest_level"]) == (0, None)
    assert (await office.refused(PREVIEW)).code == 1773
    rights = (("silences:create", "agent:id:*", "allow"), ("alerts:read", "agent:id:001", "allow"))
    await office.caller("both", *rights)
    await office.caller("half", rights[0])
    assert (await office.one(PREVIEW, "both", level="1-9"))["alerts"] == 2
    assert (await office.refused(PREVIEW, "half", level="1-9")).code == 4000


async def test_silences_are_bounded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silences_module, "MAX_SILENCES", 2)
    monkeypatch.setattr(silences_module, "MAX_KEPT", 3)
    made = [(await office.one(MAKE, level="1", body=BODY))["id"] for _ in range(2)]
    assert await office.failed(MAKE, level="1", body=BODY) == [(1775, [])]
    for _ in range(3):
        await office.one(CHANGE, silence_id=str(made[-1]), body={"until": "now"})
        made.append((await office.one(MAKE, level="1", body=BODY))["id"])
    kept = await ids(office)
    assert len(kept) == 3
    assert set(kept) == {made[0], *made[-2:]}
