"""Integrity results: read, deleted, renewed (agent-data.md 3.7)."""

from typing import Any

import pytest
from sqlalchemy import select

from secmon.common.errors import SecmonError
from secmon.inventory import schema
from tests.offenders import Offenders
from tests.operations.fields import MemoryLink
from tests.operations.inventory.hosts import NODES, counted_statements, members, report
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer

pytestmark = pytest.mark.anyio

READ, LAST_SCAN = "GET /syscheck/{agent_id}", "GET /syscheck/{agent_id}/last_scan"
CLEAR, CLEAR_ALL = "DELETE /syscheck/{agent_id}", "DELETE /experimental/syscheck"


def entry(number: int, file: str, **values: Any) -> dict[str, Any]:
    """An entry with the columns that are never null."""
    required = {"type": "file", "full_path": file, "file": file, "date": 1700000010, "changes": 1}
    return {"agent_id": number, **required, "checksum": "c0", **values}


BRAVO = entry(
    2, "/srv/demo/bravo", mtime=1700000002, size=4, perm="rw-r--r--", uid="0", gid="0", uname="root", gname="root",
    md5="c193497a1a06b2c72230e6146ff47080", sha1="7bbef45b3bc70855010e02460717643125c3beca",
    sha256="27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a", inode=1002,
)  # fmt: skip


@pytest.fixture
def office(hosts: Office) -> Office:
    report(
        hosts.world,
        schema.fim_entries,
        BRAVO,
        entry(2, "/srv/demo/alpha", mtime=1700000001, perm="100644", md5="d" * 32),
        entry(2, "C:\\demo", mtime=0, perm='{"S-1-5-32-544":{"name":"Administrators","allowed":["read_control"]}}'),
        entry(
            2, "HKEY_A", type="registry_value", mtime=1700000003, arch="[x64]", value_name="run", value_type="REG_SZ"
        ),
        entry(4, "/old"),
        entry(4, "/older"),
    )
    return hosts


async def test_an_entry_has_the_documented_shape(office: Office) -> None:
    body = await office.ask(READ, agent_id="002", file="/srv/demo/bravo")
    assert body["data"]["affected_items"] == [
        {
            "file": "/srv/demo/bravo", "type": "file", "date": "2023-11-14T22:13:30+00:00",
            "mtime": "2023-11-14T22:13:22+00:00", "changes": 1, "size": 4, "perm": "rw-r--r--", "uid": "0", "gid": "0",
            "uname": "root", "gname": "root", "md5": "c193497a1a06b2c72230e6146ff47080",
            "sha1": "7bbef45b3bc70855010e02460717643125c3beca",
            "sha256": "27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a", "inode": 1002,
        }
    ]  # fmt: skip
    assert body["data"]["synchronization"]["node"] == "beta"


async def test_values_that_are_not_shown_as_stored(office: Office) -> None:
    found = (await office.ask(READ, agent_id="002", select=["perm", "mtime", "value.name", "value.type"]))["data"]
    assert found["affected_items"] == [
        {"file": "C:\\demo", "perm": {"S-1-5-32-544": {"name": "Administrators", "allowed": ["read_control"]}}},
        {"file": "/srv/demo/alpha", "perm": "100644", "mtime": "2023-11-14T22:13:21+00:00"},
        {"file": "/srv/demo/bravo", "perm": "rw-r--r--", "mtime": "2023-11-14T22:13:22+00:00"},
        {"file": "HKEY_A", "value": {"name": "run", "type": "REG_SZ"}, "mtime": "2023-11-14T22:13:23+00:00"},
    ]


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"hash": "D" * 32}, ["/srv/demo/alpha"]),
    ({"hash": "7bbef45b3bc70855010e02460717643125c3beca"}, ["/srv/demo/bravo"]),
    ({"summary": True, "hash": "d" * 32}, ["/srv/demo/alpha"]),
    ({"type": "registry_value", "arch": "[x64]"}, ["HKEY_A"]),
    ({"value.name": "RUN"}, ["HKEY_A"]),
    ({"q": "mtime>2023-11-14 22:13:22"}, ["HKEY_A"]),
    ({"file": "' OR ''='"}, []),
    ({"search": "demo", "sort": "-file", "limit": 1}, ["C:\\demo"]),
]


async def test_filters(office: Office) -> None:
    with Offenders() as offenders:
        for asked, found in FILTERS:
            with offenders.row(asked):
                assert [file for (file,) in members(await office.ask(READ, agent_id="002", **asked), "file")] == found


async def test_the_summary_has_three_fields(office: Office) -> None:
    body = await office.ask(READ, agent_id="002", summary=True, sort="-file", limit=1)
    assert body["data"]["affected_items"] == [
        {"file": "HKEY_A", "date": "2023-11-14T22:13:30+00:00", "mtime": "2023-11-14T22:13:23+00:00"}
    ]
    assert (await office.refused(READ, agent_id="002", summary=True, select=["md5"])).code == 1724


async def test_an_unknown_agent_has_no_data(office: Office) -> None:
    for agent in ("999", "005"):
        error = await office.refused(READ, agent_id=agent)
        assert (error.code, error.kind.status) == (2007, 400)
    assert (await office.refused(LAST_SCAN, agent_id="999")).code == 1701


async def test_the_age_is_that_of_the_component_that_is_furthest_back(office: Office) -> None:
    bookkeeping = {"n_attempts": 1, "n_completions": 1, "last_manager_checksum": "", "last_agent_checksum": ""}
    whole = {"agent_id": 2, "component": "fim_file", "last_attempt": 1700000100, "last_completion": 1700000100}
    partial = {
        "agent_id": 2,
        "component": "fim_registry_key",
        "last_attempt": 1700000200,
        "last_completion": 1700000000,
    }
    report(office.world, schema.synchronizations, {**whole, **bookkeeping})
    assert (await office.ask(READ, agent_id="002"))["data"]["synchronization"]["complete"]
    report(office.world, schema.synchronizations, {**partial, **bookkeeping})
    assert (await office.ask(READ, agent_id="002"))["data"]["synchronization"] == {
        "node": "beta",
        "last_attempt": "2023-11-14T22:16:40+00:00",
        "last_completion": "2023-11-14T22:13:20+00:00",
        "complete": False,
    }


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ((1700000000, 1700000042), ("2023-11-14T22:13:20+00:00", "2023-11-14T22:14:02+00:00")),
        ((1700000000, 1600000000), ("2023-11-14T22:13:20+00:00", None)),
        ((1700000000, 0), ("2023-11-14T22:13:20+00:00", None)),
        ((0, 1700000042), (None, None)),
    ],
)
async def test_last_scan(office: Office, stored: tuple[int, int], shown: tuple[str, str]) -> None:
    report(office.world, schema.fim_scans, {"agent_id": 2, "start_scan": stored[0], "end_scan": stored[1]})
    for agent, times in (("002", shown), ("001", (None, None)), ("005", (None, None)), ("000", (None, None))):
        assert members(await office.ask(LAST_SCAN, agent_id=agent), "start", "end") == [times]


async def test_only_entries_of_old_agents_are_deleted(office: Office) -> None:
    row = {"agent_id": 4, "component": "fim_file", "last_attempt": 1, "last_completion": 1, "n_attempts": 1}
    checksums = {"n_completions": 1, "last_manager_checksum": "m", "last_agent_checksum": "a"}
    report(office.world, schema.synchronizations, {**row, **checksums})
    assert await office.failed(CLEAR, agent_id="002") == [(1760, ["002"])]
    assert await office.failed(CLEAR, agent_id="005") == [(1015, ["005"])]
    assert await office.failed(CLEAR, agent_id="999") == [(1701, ["999"])]
    assert len(members(await office.ask(READ, agent_id="002"), "file")) == 4
    body = await office.ask(CLEAR, agent_id="004")
    assert (body["data"]["affected_items"], body["error"]) == (["004"], 0)
    assert members(await office.ask(READ, agent_id="004"), "file") == []
    with office.world.nodes["gamma"].node.inventory.read() as connection:
        checksum = connection.execute(select(schema.synchronizations.c.last_manager_checksum)).scalar_one()
    assert checksum == "", "the agent would not send again what is deleted"


async def test_agents_that_are_not_named_do_not_fail(office: Office) -> None:
    body = await office.ask(CLEAR_ALL, agents_list=["all"])
    assert (body["data"]["affected_items"], body["data"]["failed_items"]) == (["004"], [])
    assert await office.failed(CLEAR_ALL, agents_list=["002", "004", "000"]) == [(1760, ["000", "002"])]
    office.world.peers["gamma"] = AnsweringPeer(SecmonError(3022, ids=("gamma",)))
    assert await office.failed(CLEAR_ALL, agents_list=["all"]) == [(3022, ["004"])]


@pytest.mark.parametrize("area", ["syscheck", "rootcheck"])
async def test_scans_are_requested_from_active_agents(office: Office, area: str) -> None:
    links = {name: MemoryLink() for name in NODES}
    for name, link in links.items():
        office.world.nodes[name].node.services.agent_link = link
    body = await office.ask(f"PUT /{area}")
    assert (body["data"]["affected_items"], body["data"]["failed_items"]) == (["001", "002", "004"], [])
    assert links["beta"].sent == [(2, "#!-syscheck restart")]
    named = await office.failed(f"PUT /{area}", agents_list=["002", "003", "999", "000"])
    assert named == [(1701, ["999"]), (1703, ["000"]), (1707, ["003"])]


async def test_a_deletion_takes_two_statements_however_many_agents_there_are(office: Office) -> None:
    with counted_statements(office.world) as statements:
        await office.ask(CLEAR_ALL, agents_list=["all"])
    assert len([one for one in statements if one.startswith(("DELETE", "UPDATE"))]) == 2
