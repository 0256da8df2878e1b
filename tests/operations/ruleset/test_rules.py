"""``/rules`` (analysis-api.md 2)."""

from typing import Any

import pytest

from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.outcome import Raw
from tests.operations.analyst import stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

RULES, GROUPS, REQUIREMENT = "GET /rules", "GET /rules/groups", "GET /rules/requirement/{requirement}"
FILES, FILE = "GET /rules/files", "GET /rules/files/{filename}"


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


async def ids(office: Office, user: str = "admin", /, **params: Any) -> list[int]:
    body = await office.world.same_as_text(RULES, user, select=["id"], **params)
    return [item["id"] for item in body["data"]["affected_items"]]


async def test_all_rules_in_the_order_of_their_ids(office: Office) -> None:
    body = await office.ask(RULES, limit=100_000)
    found = [item["id"] for item in body["data"]["affected_items"]]
    assert body["data"]["total_affected_items"] == len(found) > 300
    assert found == sorted(found)
    assert list(body["data"]["affected_items"][-1]) == [
        "filename", "relative_dirname", "id", "level", "status", "details", "pci_dss", "gpg13", "gdpr", "hipaa",
        "nist_800_53", "tsc", "mitre", "groups", "description",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"filename": ["shop_rules.xml", "none.xml"]}, [100730, 100731]),
        ({"rule_ids": [100731, 100730]}, [100730, 100731]),
        ({"group": "fraud"}, [100731]),
        ({"group": "fra"}, []),
        ({"relative_dirname": "etc/rules"}, [100730, 100731]),
        ({"relative_dirname": "etc/rules", "level": "9"}, [100731]),
        ({"relative_dirname": "etc/rules", "level": "0-8"}, [100730]),
        ({"relative_dirname": "etc/rules", "level": "8-0"}, []),
        ({"relative_dirname": "etc/rules", "status": "disabled"}, []),
        ({"pci_dss": "10.2.4", "gdpr": "IV_35.7.d", "filename": ["shop_rules.xml"]}, [100731]),
        ({"mitre": "T1110", "filename": ["shop_rules.xml"]}, [100731]),
        ({"nist-800-53": "x"}, []),
        ({"q": "details.frequency=6;filename=shop_rules.xml"}, [100731]),
        ({"q": "filename=shop_rules.xml;level>3"}, [100731]),
        ({"search": "kb.example"}, [100731]),
    ],
)  # fmt: skip
async def test_filters(office: Office, params: dict[str, Any], found: list[int]) -> None:
    assert await ids(office, **params) == found


async def test_unknown_ids_are_failed_items_whatever_else_is_asked(office: Office) -> None:
    body = await office.ask(RULES, rule_ids=[100730, 999999], level="15")
    assert body["error"] == 1
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1208, [999999])
    body = await office.ask(RULES, rule_ids=[100730, 999999])
    assert (body["error"], body["data"]["total_affected_items"]) == (2, 1)


async def test_selected_fields(office: Office) -> None:
    body = await office.ask(RULES, filename=["shop_rules.xml"], select=["level", "details.match"])
    assert body["data"]["affected_items"] == [
        {"level": 3, "id": 100730},
        {"level": 9, "details": {"match": {"pattern": "refund|chargeback", "negate": "yes"}}, "id": 100731},
    ]
    assert (await office.refused(RULES, select=["none"])).code == 1724
    assert (await office.refused(RULES, sort="details")).code == 1403


@pytest.mark.parametrize(
    "query",
    [
        [("rule_ids", "0")], [("rule_ids", "x")], [("level", "1-2-3")], [("level", "x")], [("status", "on")],
        [("relative_dirname", "etc/rules/../..")], [("relative_dirname", "/etc/rules")], [("nist_800_53", "x")],
        [("search", "a;b")], [("limit", "0")],
    ],
)  # fmt: skip
async def test_parameters_that_are_refused(query: list[tuple[str, str]]) -> None:
    operation = CATALOGUE.get(RULES)
    assert operation is not None
    with pytest.raises(ParameterError):
        read_text(operation.parameters, query, {})


async def test_values(office: Office) -> None:
    body = await office.ask(GROUPS, search="fra")
    assert body["data"]["affected_items"] == ["fraud"]
    body = await office.ask(GROUPS)
    groups = body["data"]["affected_items"]
    assert groups == sorted(set(groups), key=lambda one: (one.lower(), one))
    assert (await office.ask(GROUPS, sort="-", limit=1))["data"]["affected_items"] == groups[-1:]
    body = await office.ask(REQUIREMENT, requirement="gdpr", search="IV_35.7.d")
    assert body["data"]["affected_items"] == ["IV_35.7.d"]
    assert (await office.ask(REQUIREMENT, requirement="nist-800-53"))["error"] == 0


async def test_files(office: Office) -> None:
    body = await office.ask(FILES, relative_dirname="etc/rules")
    item = {"filename": "shop_rules.xml", "relative_dirname": "etc/rules", "status": "enabled"}
    assert body["data"]["affected_items"] == [item]
    body = await office.ask(FILES, limit=500)
    names = [one["filename"] for one in body["data"]["affected_items"]]
    assert names == sorted(names, key=str.lower)
    assert (await office.ask(FILES, filename=["none.xml"]))["data"]["affected_items"] == []
    assert (await office.ask(FILES, status="disabled"))["data"]["affected_items"] == []


async def test_one_file(office: Office) -> None:
    one = await office.one(FILE, filename="shop_rules.xml")
    assert one["group"]["rule"][0]["@id"] == "100730"
    raw = await office.world.raw(FILE, filename="shop_rules.xml", raw=True)
    assert raw == Raw(
        body=(office.node.paths.etc / "rules/shop_rules.xml").read_bytes(),
        content_type="application/xml; charset=utf-8",
    )
    assert await office.failed(FILE, filename="none.xml") == [(1415, ["none.xml"])]
    assert await office.failed(FILE, filename="shop_rules.xml", relative_dirname="ruleset/rules", raw=True) == [
        (1415, ["shop_rules.xml"])
    ]
    (office.node.paths.etc / "rules/broken.xml").write_bytes(b"<a>\\<</a>")
    assert await office.failed(FILE, filename="broken.xml") == [(1413, ["broken.xml"])]
    assert (await office.world.raw(FILE, filename="broken.xml", raw=True)).body == b"<a>\\<</a>"


async def test_permissions(office: Office) -> None:
    await office.caller("shopper", ("rules:read", "rule:file:shop_rules.xml", "allow"))
    await office.caller(
        "others", ("rules:read", "rule:file:*", "allow"), ("rules:read", "rule:file:shop_rules.xml", "deny")
    )
    assert await ids(office, "shopper") == [100730, 100731]
    assert await ids(office, "nobody") == []
    assert not {100730, 100731} & set(await ids(office, "others", limit=100_000))
    assert await office.failed(RULES, "others", rule_ids=[100730]) == [(1208, [100730])]
    assert (await office.ask(GROUPS, "shopper"))["data"]["affected_items"] == ["fraud", "shop"]
    assert (await office.ask(FILES, "shopper"))["data"]["total_affected_items"] == 1
    refused = await office.refused(FILES, "others", filename=["shop_rules.xml"])
    assert (refused.code, refused.ids) == (4000, ("shop_rules.xml",))
    body = await office.ask(FILES, "shopper", filename=["shop_rules.xml", "0000-roots_rules.xml"])
    assert (body["error"], body["data"]["failed_items"][0]["id"]) == (2, ["0000-roots_rules.xml"])
    assert (await office.refused(FILE, "others", filename="shop_rules.xml")).code == 4000
    assert (await office.one(FILE, "shopper", filename="shop_rules.xml"))["group"]


async def test_a_broken_file_costs_its_own_rules_only(office: Office) -> None:
    (office.node.paths.etc / "rules/broken.xml").write_bytes(b"<group name='a'>\n<rule")
    body = await office.ask(RULES, group="fraud")
    assert (body["error"], body["data"]["total_affected_items"]) == (2, 1)
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1413, ["etc/rules/broken.xml"])
    assert (await office.ask(GROUPS, search="fraud"))["error"] == 2


async def test_every_node_answers_for_its_own_files(cluster: World) -> None:
    stocked(cluster)
    beta = cluster.nodes["beta"].node
    (beta.paths.etc / "rules/shop_rules.xml").unlink()
    assert (await cluster.outcome(RULES, at="alpha", group="fraud")).count == 1
    assert (await cluster.outcome(RULES, at="beta", group="fraud")).count == 0
    assert (await cluster.outcome(FILE, at="beta", filename="shop_rules.xml")).count == 1
