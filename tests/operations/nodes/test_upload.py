"""``PUT /manager/configuration`` and ``PUT /cluster/{node_id}/configuration`` (manager.md 5)."""

import re
import stat
from typing import Any

import pytest

from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.config.replace import backup_path, versions
from tests.config import stock
from tests.operations.world import KEY, World

pytestmark = pytest.mark.anyio

UPLOAD = "PUT /manager/configuration"
NODE_UPLOAD = "PUT /cluster/{node_id}/configuration"


def alone_with(world: World, **switches: str) -> Node:
    """A node without cluster, with switches of ``upload_configuration`` (names with ``__`` for dots)."""
    api = {f"upload_configuration.{name.replace('__', '.')}.allow": value for name, value in switches.items()}
    return world.start(clustered=False, api=api).node


def edited(node: Node, *sections: str) -> bytes:
    return node.paths.main_config.read_bytes().replace(
        b"</ossec_config>", "".join(sections).encode() + b"</ossec_config>"
    )


async def code(world: World, content: bytes, name: str = UPLOAD, user: str = "admin", **params: Any) -> int:
    """The code of the one failure, 0 when the upload was taken."""
    body = await world.body(name, user, body=content, **params)
    if not body["error"]:
        return 0
    (failure,) = body["data"]["failed_items"]
    assert failure["id"] == [params.get("node_id", "manager")]
    found = failure["error"]["code"]
    assert isinstance(found, int)
    return found


async def test_the_file_is_replaced_and_the_old_one_kept(empty_world: World) -> None:
    node = alone_with(empty_world)
    saved, new = node.paths.main_config.read_bytes(), edited(node, "<!-- é -->")
    body = await empty_world.body(UPLOAD, body=new)
    assert body["data"]["affected_items"] == ["manager"]
    assert body["data"]["total_affected_items"] == 1
    assert node.paths.main_config.read_bytes() == new
    assert stat.S_IMODE(node.paths.main_config.stat().st_mode) == 0o660
    assert backup_path(node.paths).read_bytes() == saved
    assert [one.read_bytes() for one in versions(node.paths)] == [saved]


@pytest.mark.parametrize(("content", "expected"), [(b"", 1912), (b"<ossec_config>\xff</ossec_config>", 1911)])
async def test_what_is_no_text_fails_the_whole_request(empty_world: World, content: bytes, expected: int) -> None:
    alone_with(empty_world)
    with pytest.raises(SecmonError) as caught:
        await empty_world.run(UPLOAD, body=content)
    assert (caught.value.code, caught.value.kind.status) == (expected, 400)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<ossec_config>", 1113),
        (b"plain words", 1908),
        (b"<ossec_config><wodle><x/></wodle></ossec_config>", 1113),
        (b"<ossec_config><global><no_such_option>1</no_such_option></global></ossec_config>", 1908),
        (b"<ossec_config><integration><name>x</name><api_key>*****</api_key></integration></ossec_config>", 1125),
    ],
)
async def test_what_is_not_valid_changes_nothing(empty_world: World, content: bytes, expected: int) -> None:
    node = alone_with(empty_world)
    saved = node.paths.main_config.read_bytes()
    assert await code(empty_world, content) == expected
    assert node.paths.main_config.read_bytes() == saved
    assert versions(node.paths) == []
    assert not backup_path(node.paths).exists()


async def test_an_installation_that_is_not_valid_otherwise_keeps_its_file(empty_world: World) -> None:
    node = alone_with(empty_world)
    node.paths.api_config.write_text("port: 0\n")
    saved = node.paths.main_config.read_bytes()
    assert await code(empty_world, edited(node, "<!-- x -->")) == 1908
    assert node.paths.main_config.read_bytes() == saved


async def test_what_has_no_effect_is_said(empty_world: World) -> None:
    node = alone_with(empty_world)
    body = await empty_world.body(UPLOAD, body=edited(node, "<!-- x -->"))
    assert body["message"] == "The configuration was replaced; it takes effect at the next restart"
    section = "\n<database_output><hostname>192.0.2.9</hostname></database_output>"
    for name in (UPLOAD, "GET /manager/configuration/validation"):
        more = {"body": edited(node, section)} if name == UPLOAD else {}
        body = await empty_world.body(name, **more)
        assert (body["error"], body["data"]["total_affected_items"]) == (0, 1)
        said = r"ossec\.conf:\d+: database_output: no effect in this version: no alert is written to a database"
        assert re.search(said, body["message"]), body["message"]
        assert str(node.paths.root) not in body["message"]


async def test_a_stock_configuration_can_be_uploaded(empty_world: World) -> None:
    alone_with(empty_world)
    body = await empty_world.body(UPLOAD, body=stock.XML.encode())
    assert body["error"] == 0, body
    assert "update_check has no effect" in body["message"]


async def test_a_present_file_that_is_broken_can_be_repaired(empty_world: World) -> None:
    node = alone_with(empty_world)
    good = node.paths.main_config.read_bytes()
    node.paths.main_config.write_bytes(b"<broken \xff")
    assert await code(empty_world, good) == 0
    assert node.paths.main_config.read_bytes() == good


async def test_a_missing_file_cannot_be_backed_up(empty_world: World) -> None:
    node = alone_with(empty_world)
    new = edited(node)
    node.paths.main_config.unlink()
    assert await code(empty_world, new) == 1019


async def test_protected_limits(empty_world: World) -> None:
    node = alone_with(empty_world, limits__eps="no")
    assert await code(empty_world, edited(node, "<alerts><log_alert_level>4</log_alert_level></alerts>")) == 0
    limits = "<global><limits><eps><maximum>9</maximum></eps></limits></global>"
    assert await code(empty_world, edited(node, limits)) == 1127
    node.paths.main_config.write_bytes(edited(node, limits))
    assert await code(empty_world, edited(node, "<!-- unchanged limits -->")) == 0


async def test_a_command_of_an_active_response_is_no_remote_command(empty_world: World) -> None:
    node = alone_with(empty_world, remote_commands__localfile="no")
    between = (
        "<localfile><location>/a</location><log_format>syslog</log_format></localfile>",
        "<active-response><command>notify</command><location>local</location><level>5</level></active-response>",
        "<localfile><location>/b</location><log_format>syslog</log_format></localfile>",
    )
    assert await code(empty_world, edited(node, *between)) == 0
    command = "<localfile><log_format>command</log_format><command>id</command></localfile>"
    assert await code(empty_world, edited(node, command)) == 1124


async def test_masked_secrets_keep_their_values(cluster: World) -> None:
    beta = cluster.nodes["beta"].node
    raw = (await cluster.raw("GET /cluster/{node_id}/configuration", "reader", node_id="beta", raw=True)).body
    assert KEY.encode() not in raw
    new = raw.replace(b"</ossec_config>", b"<!-- edited --></ossec_config>")
    assert await code(cluster, new, NODE_UPLOAD, node_id="beta") == 0
    written = beta.paths.main_config.read_text()
    assert f"<key>{KEY}</key>" in written
    assert "<!-- edited -->" in written


@pytest.mark.parametrize("at", ["alpha", "beta", "gamma"])
async def test_an_upload_reaches_its_node_only(cluster: World, at: str) -> None:
    before = {name: one.node.paths.main_config.read_bytes() for name, one in cluster.nodes.items()}
    new = edited(cluster.nodes["beta"].node, "<!-- for beta -->")
    assert await code(cluster, new, NODE_UPLOAD, "cluster_only", node_id="beta", at=at) == 0
    after = {name: one.node.paths.main_config.read_bytes() for name, one in cluster.nodes.items()}
    assert after == before | {"beta": new}


async def test_the_switches_are_those_of_the_node_that_is_changed(empty_world: World) -> None:
    empty_world.start("alpha")
    beta = empty_world.start("beta", api={"upload_configuration.indexer.allow": "no"}).node
    hosts = "<indexer><enabled>no</enabled></indexer>"
    assert await code(empty_world, edited(beta, hosts), NODE_UPLOAD, node_id="beta") == 1127
    alpha = empty_world.nodes["alpha"].node
    assert await code(empty_world, edited(alpha, hosts), NODE_UPLOAD, node_id="alpha") == 0


async def test_an_upload_to_a_node_that_does_not_exist(cluster: World) -> None:
    assert await code(cluster, b"<x/>", NODE_UPLOAD, node_id="zz") == 1730


async def test_whole_request_errors_come_back_from_another_node(cluster: World) -> None:
    with pytest.raises(SecmonError) as caught:
        await cluster.run(NODE_UPLOAD, node_id="beta", body=b"\xff")
    assert caught.value.code == 1911
    assert list(caught.value.nodes) == ["beta"]


@pytest.mark.parametrize(
    ("name", "user"), [(UPLOAD, "nobody"), (UPLOAD, "reader"), (NODE_UPLOAD, "reader"), (NODE_UPLOAD, "alpha_only")]
)
async def test_readers_change_nothing(cluster: World, name: str, user: str) -> None:
    params = {"node_id": "beta"} if "node_id" in name else {}
    with pytest.raises(SecmonError) as caught:
        await cluster.run(name, user, body=edited(cluster.nodes["beta"].node, "<!-- x -->"), **params)
    assert caught.value.code == 4000
    assert not backup_path(cluster.nodes["beta"].node.paths).exists()


ROLE = b"<node_type>worker</node_type>"
CLUSTER_SECTION = re.compile(rb"<cluster>.*</cluster>", re.DOTALL)


async def test_a_worker_does_not_leave_the_master_whose_users_it_copied(empty_world: World) -> None:
    master, node = empty_world.start("alpha").node, empty_world.start("beta").node
    node.security.apply_snapshot(master.security.snapshot())
    saved = node.paths.main_config.read_bytes()
    assert ROLE in saved
    for new in (
        saved.replace(ROLE, b"<node_type>master</node_type>"),
        saved.replace(b"<disabled>no</disabled>", b"<disabled>yes</disabled>"),
        CLUSTER_SECTION.sub(b"", saved),
    ):
        assert new != saved
        body = await empty_world.body(NODE_UPLOAD, body=new, node_id="beta")
        [failed] = body["data"]["failed_items"]
        assert (failed["error"]["code"], failed["id"]) == (1127, ["beta"])
        assert "is a copy of another master's security state" in failed["error"]["message"]
        assert "secmon cluster promote" in failed["error"]["message"]
    assert node.paths.main_config.read_bytes() == saved
    assert await code(empty_world, edited(node, "<!-- x -->"), NODE_UPLOAD, node_id="beta") == 0
    moved = node.paths.main_config.read_bytes().replace(b"10.9.0.1", b"10.9.0.7")
    assert await code(empty_world, moved, NODE_UPLOAD, node_id="beta") == 0


@pytest.mark.parametrize(
    ("node_id", "name", "expected"),
    [
        ("beta", "alpha", 3029),
        ("beta", "ALPHA", 3029),
        ("beta", "gamma", 3028),
        ("alpha", "beta", 3029),
        ("beta", "new", 0),
    ],
)
async def test_a_node_does_not_get_the_name_of_another(cluster: World, node_id: str, name: str, expected: int) -> None:
    saved = cluster.nodes[node_id].node.paths.main_config.read_bytes()
    new = saved.replace(f"<node_name>{node_id}<".encode(), f"<node_name>{name}<".encode())
    assert new != saved
    assert await code(cluster, new, NODE_UPLOAD, node_id=node_id) == expected
    assert cluster.nodes[node_id].node.paths.main_config.read_bytes() == (saved if expected else new)


async def test_a_master_may_leave_its_cluster(empty_world: World) -> None:
    node = empty_world.start("alpha").node
    alone = CLUSTER_SECTION.sub(b"", node.paths.main_config.read_bytes())
    assert await code(empty_world, alone, NODE_UPLOAD, node_id="alpha") == 0
