"""``/decoders`` (analysis-api.md 3)."""

import pytest

from tests.operations.analyst import SHOP_DECODERS, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

DECODERS, PARENTS = "GET /decoders", "GET /decoders/parents"
FILES, FILE = "GET /decoders/files", "GET /decoders/files/{filename}"
SHOP = {"filename": "shop_decoders.xml", "relative_dirname": "etc/decoders", "status": "enabled"}


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


async def names(office: Office, operation: str, user: str = "admin", /, **params: object) -> list[str]:
    body = await office.ask(operation, user, **params)
    return [item["name"] for item in body["data"]["affected_items"]]


async def test_decoders_by_file_and_position(office: Office) -> None:
    body = await office.ask(DECODERS, limit=100_000)
    places = [(item["filename"], item["position"]) for item in body["data"]["affected_items"]]
    assert places == sorted(places, key=lambda place: (place[0].lower(), place[1]))
    one = await office.one(DECODERS, decoder_names=["shop"])
    assert one == {**SHOP, "name": "shop", "position": 0, "details": {"program_name": {"pattern": "^shop"}}}


async def test_filters(office: Office) -> None:
    assert await names(office, DECODERS, filename=["shop_decoders.xml"]) == ["shop", "shop-void"]
    assert await names(office, DECODERS, relative_dirname="etc/decoders/") == ["shop", "shop-void"]
    assert await names(office, DECODERS, relative_dirname="etc/decoders/x") == []
    assert await names(office, DECODERS, filename=["shop_decoders.xml"], status="disabled") == []
    assert await names(office, DECODERS, q="details.parent=shop") == ["shop-void"]
    assert await office.failed(DECODERS, decoder_names=["shop", "none"], status="disabled") == [(1504, ["none"])]
    body = await office.ask(DECODERS, filename=["shop_decoders.xml"], select=["details.order"])
    assert body["data"]["affected_items"] == [
        {"filename": "shop_decoders.xml", "position": 0},
        {"details": {"order": "cart.id, srcuser"}, "filename": "shop_decoders.xml", "position": 1},
    ]


async def test_parents(office: Office) -> None:
    found = await names(office, PARENTS, search="shop")
    assert found == ["shop"]
    assert "shop-void" not in await names(office, PARENTS, limit=100_000)


async def test_files(office: Office) -> None:
    assert (await office.ask(FILES, relative_dirname="etc/decoders"))["data"]["affected_items"] == [SHOP]
    one = await office.one(FILE, filename="shop_decoders.xml")
    assert [each["@name"] for each in one["decoder"]] == ["shop", "shop-void"]
    assert (await office.world.raw(FILE, filename="shop_decoders.xml", raw=True)).body == SHOP_DECODERS
    assert await office.failed(FILE, filename="none.xml") == [(1503, ["none.xml"])]


async def test_permissions(office: Office) -> None:
    await office.caller("shopper", ("decoders:read", "decoder:file:shop_decoders.xml", "allow"))
    assert await names(office, DECODERS, "shopper") == ["shop", "shop-void"]
    assert await names(office, PARENTS, "shopper") == ["shop"]
    assert await office.failed(DECODERS, "shopper", decoder_names=["sshd"]) == [(1504, ["sshd"])]
    assert (await office.refused(FILE, "nobody", filename="shop_decoders.xml")).code == 4000
    assert (await office.ask(DECODERS, "nobody"))["data"]["total_affected_items"] == 0


async def test_broken_files(office: Office) -> None:
    (office.node.paths.etc / "decoders/broken.xml").write_bytes(b"<decoder")
    assert await office.failed(DECODERS, decoder_names=["shop"]) == [(1501, ["etc/decoders/broken.xml"])]
    assert await office.failed(FILE, filename="broken.xml") == [(1501, ["broken.xml"])]
