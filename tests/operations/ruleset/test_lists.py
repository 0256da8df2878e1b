"""``/lists`` (analysis-api.md 4 and 5)."""

from datetime import UTC, datetime

import msgspec
import pytest

from secmon.knowledge.lists.feed_states import FeedState, FeedStates
from secmon.knowledge.lists.feeds_yml import ListFeed
from tests.operations.analyst import stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

LISTS, FILES, FILE = "GET /lists", "GET /lists/files", "GET /lists/files/{filename}"
PUT, DELETE = "PUT /lists/files/{filename}", "DELETE /lists/files/{filename}"


@pytest.fixture
def office(alone: World) -> Office:
    office = stocked(alone)
    sub = office.node.paths.etc / "lists/cloud"
    sub.mkdir()
    (sub / "regions").write_bytes(b"eu:1\n")
    return office


async def test_lists(office: Office) -> None:
    body = await office.ask(LISTS, filename=["vip", "none"])
    assert body["data"]["affected_items"] == [
        {
            "items": [{"key": "ana", "value": "gold"}, {"key": "bob", "value": ""}],
            "relative_dirname": "etc/lists",
            "filename": "vip",
        }
    ]
    body = await office.ask(LISTS, relative_dirname="etc/lists/cloud", select=["filename"])
    item = {"relative_dirname": "etc/lists/cloud", "filename": "regions"}
    assert body["data"]["affected_items"] == [item]
    assert (await office.refused(LISTS, sort="items")).code == 1403


async def test_files(office: Office) -> None:
    (office.node.paths.etc / "lists/vip.cdb").touch()
    body = await office.ask(FILES)
    assert [(item["relative_dirname"], item["filename"]) for item in body["data"]["affected_items"]] == [
        ("etc/lists", "audit-keys"),
        ("etc/lists", "privileged-users"),
        ("etc/lists", "suspicious-programs"),
        ("etc/lists", "vip"),
        ("etc/lists/cloud", "regions"),
    ]
    assert (await office.ask(FILES, search="cloud"))["data"]["total_affected_items"] == 1


async def test_lists_that_have_feeds(office: Office) -> None:
    """Other lists are as in 4.8: only these have a further field."""
    paths, moment = office.node.paths, datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
    feed = ListFeed(name="vip", url="https://feeds.example.org/vip?key=secret")
    ok = FeedState(feed=feed, checked_at=moment, renewed_at=moment, changed_at=moment, entries=2)
    FeedStates(paths).put(ok)
    shown = {
        "status": "current",
        "url": "https://feeds.example.org/vip",
        "renewed_at": "2026-09-21T14:13:20Z",
        "changed_at": "2026-09-21T14:13:20Z",
        "checked_at": "2026-09-21T14:13:20Z",
        "next_at": "2026-09-21T15:13:20Z",
        "entries": 2,
        "left_out": 0,
    }
    for operation in (LISTS, FILES):
        items = (await office.ask(operation, relative_dirname="etc/lists"))["data"]["affected_items"]
        assert {item["filename"]: item.get("renewal") for item in items} == {
            "audit-keys": None, "privileged-users": None, "suspicious-programs": None, "vip": shown,
        }  # fmt: skip
    (paths.etc / "lists/vip").write_bytes(b"")
    FeedStates(paths).put(msgspec.structs.replace(ok, failed_since=moment, error="status 500", entries=0))
    body = await office.ask(LISTS, q="renewal.status=failing", select=["renewal", "items"])
    item = body["data"]["affected_items"][0]
    assert (item["items"], item["renewal"]["error"], item["renewal"]["next_at"]) == (
        [], "status 500", "2026-09-21T14:28:20Z",
    )  # fmt: skip
    (paths.etc / "lists/vip.expiry").write_bytes(b"")
    assert (await office.ask(DELETE, filename="vip"))["error"] == 0
    assert not (paths.etc / "lists/vip.expiry").exists()


async def test_one_list(office: Office) -> None:
    assert await office.one(FILE, filename="regions") == {"eu": "1"}
    raw = await office.world.raw(FILE, filename="vip", raw=True)
    assert (raw.body, raw.content_type) == (b"ana:gold\nbob:\n", "text/plain; charset=utf-8")
    assert await office.failed(FILE, filename="none") == [(1802, ["none"])]


async def test_lists_that_are_not_well_formed(office: Office) -> None:
    (office.node.paths.etc / "lists/vip").write_bytes(b"a:b:c\n")
    assert await office.failed(FILE, filename="vip") == [(1800, ["vip"])]
    refused = await office.refused(LISTS)
    assert refused.code == 1800
    assert "etc/lists/vip: line 1" in refused.message
    assert (await office.ask(LISTS, filename=["regions"]))["error"] == 0


async def test_permissions(office: Office) -> None:
    await office.caller("reader1", ("lists:read", "list:file:vip", "allow"))
    body = await office.ask(LISTS, "reader1")
    assert [item["filename"] for item in body["data"]["affected_items"]] == ["vip"]
    assert await office.failed(FILES, "reader1", filename=["vip", "regions"]) == [(4000, ["regions"])]
    assert (await office.refused(FILE, "reader1", filename="regions")).code == 4000


async def test_storing_and_deleting(office: Office) -> None:
    body = await office.ask(PUT, filename="new", body=b"a:b\n")
    assert (body["error"], body["data"]["affected_items"]) == (0, ["etc/lists/new"])
    assert await office.failed(PUT, filename="new", body=b"a:c\n") == [(1905, ["etc/lists/new"])]
    assert (await office.ask(PUT, filename="new", body=b"a:c\n", overwrite=True))["error"] == 0
    assert await office.one(FILE, filename="new") == {"a": "c"}
    assert await office.failed(PUT, filename="new", body=b"a\n", overwrite=True) == [(1800, ["etc/lists/new"])]
    assert await office.failed(PUT, filename="regions", body=b"a:b\n") == [(1805, ["etc/lists/regions"])]
    assert await office.failed(DELETE, filename="regions") == [(1906, ["etc/lists/regions"])]
    assert (await office.ask(DELETE, filename="new"))["data"]["affected_items"] == ["etc/lists/new"]
    assert await office.failed(DELETE, filename="new") == [(1906, ["etc/lists/new"])]


async def test_the_master_has_the_lists(cluster: World) -> None:
    stocked(cluster)
    outcome = await cluster.outcome(PUT, at="beta", filename="new", body=b"a:b\n")
    assert outcome.items == ["etc/lists/new"]
    assert (cluster.nodes["alpha"].node.paths.etc / "lists/new").exists()
    assert not (cluster.nodes["beta"].node.paths.etc / "lists/new").exists()
    assert (await cluster.outcome(LISTS, at="beta", filename=["new"])).count == 1
