"""``/mitre`` (analysis-api.md 8), with the release of the product."""

import pytest

from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


KINDS = [("tactics", 14), ("techniques", 835), ("groups", 187), ("software", 787), ("mitigations", 268)]


@pytest.mark.parametrize(("kind", "count"), KINDS)
async def test_collections_are_ordered_by_id(office: Office, kind: str, count: int) -> None:
    data = (await office.ask(f"GET /mitre/{kind}", limit=1000))["data"]
    ids = [item["id"] for item in data["affected_items"]]
    assert data["total_affected_items"] == len(ids) == count
    assert ids == sorted(ids)
    singular = {"software": "software_ids"}.get(kind, f"{kind[:-1]}_ids")
    data = (await office.ask(f"GET /mitre/{kind}", **{singular: [ids[3], "unknown"]}))["data"]
    assert [item["id"] for item in data["affected_items"]] == [ids[3]]


async def test_queries(office: Office) -> None:
    body = await office.ask("GET /mitre/techniques", q="external_id=T1110", select=["name", "external_id", "tactics"])
    (item,) = body["data"]["affected_items"]
    assert (item["name"], item["external_id"]) == ("Brute Force", "T1110")
    tactic = item["tactics"][0]
    body = await office.ask("GET /mitre/techniques", q=f"tactics={tactic}", select=["external_id"], limit=500)
    assert "T1110" in {one["external_id"] for one in body["data"]["affected_items"]}
    body = await office.ask("GET /mitre/groups", sort="-name", limit=2, select=["name"])
    assert [one["name"] for one in body["data"]["affected_items"]] == sorted(
        (one["name"] for one in body["data"]["affected_items"]), reverse=True
    )
    assert (await office.ask("GET /mitre/software", search="Mimikatz"))["data"]["total_affected_items"] >= 1
    body = await office.ask("GET /mitre/techniques", distinct=True, select=["deprecated"])
    assert [one["deprecated"] for one in body["data"]["affected_items"]] == [0, 1]
    assert (await office.refused("GET /mitre/tactics", select=["tactics"])).code == 1724
    assert (await office.refused("GET /mitre/tactics", select=["scan.nope"])).code == 1724
    assert (await office.refused("GET /mitre/tactics", sort="-none")).code == 1403


async def test_references_and_metadata(office: Office) -> None:
    body = await office.ask("GET /mitre/references", q="external_id=T1110;type=technique")
    (item,) = body["data"]["affected_items"]
    assert item["type"] == "technique"
    assert item["url"] == "https://attack.mitre.org/techniques/T1110"
    body = await office.ask("GET /mitre/references", reference_ids=[item["id"]])
    assert body["data"]["total_affected_items"] == 1
    body = await office.ask("GET /mitre/metadata")
    assert body["data"]["affected_items"] == [
        {"key": "db_version", "value": "1"}, {"key": "mitre_version", "value": "2.1"},
    ]  # fmt: skip
