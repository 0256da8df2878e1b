"""``/manager`` and ``/cluster/{node_id}`` (manager.md 2 to 13)."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from secmon.cluster.executor import REVISION_SECONDS
from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.config.as_json import MASK
from secmon.operations.all import CATALOGUE
from tests.config.example import JSON, XML
from tests.operations.office import Office
from tests.operations.world import KEY, World
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio

CONFIGURATION = "GET /manager/configuration"


def write_main(world: World, text: str, name: str = "manager") -> None:
    world.nodes[name].node.paths.main_config.write_text(text)


async def failed(world: World, name: str, user: str = "admin", /, **params: Any) -> tuple[int, list[Any]]:
    """Code and ids of the one failure; the answer has no items."""
    body = await world.body(name, user, **params)
    assert body["error"] == 1
    assert body["data"]["affected_items"] == []
    (failure,) = body["data"]["failed_items"]
    return failure["error"]["code"], failure["id"]


async def test_the_configuration_as_json(alone: World) -> None:
    write_main(alone, XML)
    (item,) = (await alone.outcome(CONFIGURATION)).items
    expected = json.loads(JSON)
    assert {name: item[name] for name in expected} == expected
    assert item["logging"] == [{"log_format": "plain"}]  # beyond the reference: nothing of the file is dropped


@pytest.mark.parametrize(
    ("section", "field", "code"),
    [
        ("logging", None, 1102),
        ("osquery", None, 1106),
        ("remote", "allowed-ips", 1103),
        ("global", "nothing", 1103),
    ],
)
async def test_parts_that_are_not_there(alone: World, section: str, field: str | None, code: int) -> None:
    write_main(alone, XML)
    assert await failed(alone, CONFIGURATION, section=section, field=field) == (code, ["manager"])


@pytest.mark.parametrize(
    ("section", "field", "item"),
    [
        ("remote", "port", 1103),
        ("remote", "connection", {"remote": [{"connection": "secure"}, {"connection": "syslog"}]}),
        ("global", "logall", {"global": {"logall": "yes"}}),
        ("syscollector", None, {"syscollector": {"disabled": "no", "ports": {"all": "no", "item": "yes"}}}),
    ],
)
async def test_parts_that_are(alone: World, section: str, field: str | None, item: Any) -> None:
    write_main(alone, XML)
    if isinstance(item, int):
        assert (await failed(alone, CONFIGURATION, section=section, field=field))[0] == item
    else:
        assert (await alone.outcome(CONFIGURATION, section=section, field=field)).items == [item]


def test_a_section_that_does_not_exist_is_no_parameter() -> None:
    operation = CATALOGUE.get(CONFIGURATION)
    assert operation is not None
    with pytest.raises(ParameterError, match="bogus"):
        read_text(operation.parameters, [("section", "bogus")], {})
    assert read_text(operation.parameters, [("section", "GLOBAL")], {}) == {"section": "global"}


async def test_field_without_section_is_ignored(alone: World) -> None:
    write_main(alone, XML)
    assert (await alone.outcome(CONFIGURATION, field="logall")).items == (await alone.outcome(CONFIGURATION)).items


async def test_distinct_drops_repeated_folders_only(alone: World) -> None:
    folders = "<rule_dir>a</rule_dir><rule_dir>b</rule_dir><rule_dir>a</rule_dir>"
    lists = "<list>l</list><list>l</list>"
    write_main(alone, f"<ossec_config><ruleset>{folders}{lists}</ruleset></ossec_config>")
    assert (await alone.outcome(CONFIGURATION, section="ruleset")).items[0]["ruleset"]["rule_dir"] == ["a", "b", "a"]
    (item,) = (await alone.outcome(CONFIGURATION, section="ruleset", distinct=True)).items
    assert item == {"ruleset": {"rule_dir": ["a", "b"], "list": ["l", "l"]}}


async def test_raw_is_the_file_itself(alone: World) -> None:
    write_main(alone, XML.replace("\n", "\r\n"))
    answer = await alone.raw(CONFIGURATION, raw=True, section="logging")
    assert answer.body == alone.nodes["manager"].node.paths.main_config.read_bytes()
    assert answer.content_type.startswith("application/xml")


async def test_a_file_that_cannot_be_parsed(alone: World) -> None:
    write_main(alone, "<ossec_config>")
    assert await failed(alone, CONFIGURATION) == (1101, ["manager"])
    assert (await alone.raw(CONFIGURATION, raw=True)).body == b"<ossec_config>"
    assert await failed(alone, CONFIGURATION, "reader", raw=True) == (1101, ["manager"])


async def test_a_file_that_is_not_there(alone: World) -> None:
    alone.nodes["manager"].node.paths.main_config.unlink()
    with pytest.raises(SecmonError) as caught:
        await alone.run(CONFIGURATION)
    assert caught.value.code == 1006
    assert list(caught.value.nodes) == ["manager"]


@pytest.mark.parametrize(
    ("user", "shown"), [("admin", KEY), ("manager_only", KEY), ("cluster_only", KEY), ("reader", MASK)]
)
@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_secrets_are_shown_to_those_who_may_change_them(cluster: World, user: str, shown: str, at: str) -> None:
    (item,) = (await cluster.outcome(CONFIGURATION, user, section="cluster", at=at)).items
    assert item["cluster"]["key"] == shown
    raw = (await cluster.raw(CONFIGURATION, user, raw=True, at=at)).body.decode()
    assert f"<key>{shown}</key>" in raw
    assert (KEY in raw) is (shown == KEY)


@pytest.mark.parametrize(("user", "shown"), [("admin", KEY), ("cluster_only", KEY), ("reader", MASK)])
@pytest.mark.parametrize("at", ["alpha", "beta", "gamma"])
async def test_secrets_of_another_node(cluster: World, user: str, shown: str, at: str) -> None:
    name = "GET /cluster/{node_id}/configuration"
    (item,) = (await cluster.outcome(name, user, node_id="beta", section="cluster", at=at)).items
    assert (item["cluster"]["node_name"], item["cluster"]["key"]) == ("beta", shown)
    raw = (await cluster.raw(name, user, node_id="beta", raw=True, at=at)).body.decode()
    assert f"<key>{shown}</key>" in raw


async def test_a_node_that_is_behind_does_not_judge_who_sees_secrets(cluster: World) -> None:
    beta = cluster.nodes["beta"]
    made = cluster.call("GET /cluster/{node_id}/configuration", "admin", {"node_id": "beta"}, on=beta)
    ahead = structs.replace(made.identity, revision=made.identity.revision + 1)
    deadline = cluster.clock.monotonic() + 0.05
    with pytest.raises(SecmonError) as caught:
        await beta.executor.run_part(structs.replace(made, identity=ahead, deadline=deadline))
    assert caught.value.code in (3021, 3044)


async def test_a_revision_that_never_comes_holds_no_call_without_a_deadline(cluster: World) -> None:
    beta = cluster.nodes["beta"]
    made = cluster.call("GET /manager/info", "admin", {}, on=beta)
    call = structs.replace(made, identity=structs.replace(made.identity, revision=2**62), deadline=None)
    waiting = asyncio.create_task(beta.executor.run(call))
    await asyncio.sleep(0)
    cluster.clock.advance(REVISION_SECONDS)
    with pytest.raises(SecmonError, match="3044"):
        await asyncio.wait_for(waiting, LIMIT_SECONDS)


async def test_status_info_and_api_configuration(alone: World) -> None:
    assert (await alone.outcome("GET /manager/status")).items[0]["secmon-analysisd"] == "running"
    (info,) = (await alone.outcome("GET /manager/info")).items
    assert info["path"] == str(alone.nodes["manager"].node.paths.root)
    assert info["version"].startswith("v4.")
    assert re.fullmatch(r"[+-]\d{4}", info["tz_offset"])
    (config,) = (await alone.outcome("GET /manager/api/config")).items
    assert config["node_name"] == "manager"
    assert config["node_api_config"]["port"] == 55000


async def test_a_killed_daemon_is_seen_and_stops_no_exempt_operation(alone: World) -> None:
    alone.nodes["manager"].control.states["secmon-analysisd"] = "failed"
    assert (await alone.outcome("GET /manager/status")).items[0]["secmon-analysisd"] == "failed"
    assert (await alone.outcome("GET /manager/info")).items
    with pytest.raises(SecmonError, match="secmon-analysisd->failed") as caught:
        await alone.run("GET /security/config")
    assert caught.value.code == 1017


async def test_validation_names_everything(alone: World) -> None:
    name = "GET /manager/configuration/validation"
    assert (await alone.outcome(name)).items == [{"name": "manager", "status": "OK"}]
    paths = alone.nodes["manager"].node.paths
    write_main(alone, "<ossec_config><global><logall>maybe</logall></global></ossec_config>")
    paths.api_config.write_text("port: 0\n")
    paths.local_internal_options.write_text("apid.debug=9\n")
    body = await alone.body(name)
    (failure,) = body["data"]["failed_items"]
    assert (failure["error"]["code"], failure["id"]) == (1908, ["manager"])
    for part in ("global.logall: 'maybe'", "port: '0'", "apid.debug: '9'"):
        assert part in failure["error"]["message"]


async def test_validation_without_a_node_to_validate_calls_nothing_invalid(cluster: World) -> None:
    body = await cluster.body("GET /cluster/configuration/validation", "nobody")
    assert (body["error"], body["data"]["total_affected_items"], body["data"]["failed_items"]) == (0, 0, [])
    assert body["message"] == "No configuration was found valid"


async def test_restart_only_with_valid_files(alone: World) -> None:
    control = alone.nodes["manager"].control
    assert (await alone.outcome("PUT /manager/restart")).items == ["manager"]
    assert control.restarts == 1
    write_main(alone, "<ossec_config><bogus/></ossec_config>")
    assert await failed(alone, "PUT /manager/restart") == (1908, ["manager"])
    assert control.restarts == 1


async def test_restart_of_some_nodes(cluster: World) -> None:
    write_main(cluster, "<ossec_config><bogus/></ossec_config>", "gamma")
    body = await cluster.body("PUT /cluster/restart", nodes_list=["gamma", "beta", "zz"])
    assert body["data"]["affected_items"] == ["beta"]
    assert {one["error"]["code"]: one["id"] for one in body["data"]["failed_items"]} == {1730: ["zz"], 1908: ["gamma"]}
    assert body["error"] == 2
    assert [one.control.restarts for one in cluster.nodes.values()] == [0, 1, 0]


@pytest.mark.parametrize(
    ("grants", "nodes", "code"),
    [
        ((("read", "*"),), None, 4000),  # no node may be restarted
        ((("read", "*"),), ["beta", "gamma"], 4000),
        ((("read", "alpha"), ("restart", "beta")), None, 4000),
        ((("read", "alpha"), ("restart", "beta")), ["alpha", "beta"], 4000),
        ((("restart", "*"),), None, None),  # none is seen
        ((("restart", "*"),), ["beta"], 4000),
        ((("read", "*"), ("restart", "beta")), None, None),
    ],
)
async def test_a_restart_that_every_node_refuses(
    cluster: World, grants: Sequence[tuple[str, str]], nodes: list[str] | None, code: int | None
) -> None:
    await Office(cluster).caller(
        "rita", *((f"cluster:{action}", f"node:id:{node}", "allow") for action, node in grants)
    )
    params: dict[str, Any] = {} if nodes is None else {"nodes_list": nodes}
    if code is None:
        body = await cluster.body("PUT /cluster/restart", "rita", **params)
        assert body["data"]["failed_items"] == []
        assert body["data"]["affected_items"] == (["beta"] if ("read", "*") in grants else [])
    else:
        with pytest.raises(SecmonError, match="Resource type: node:id") as caught:
            await cluster.run("PUT /cluster/restart", "rita", **params)
        assert caught.value.code == code
        assert not any(one.control.restarts for one in cluster.nodes.values())
