"""The inventory of agents: from the node that has it, in the shapes of agent-data.md 4.8."""

from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.inventory import schema
from tests.offenders import Offenders
from tests.operations.inventory.hosts import counted_statements, members, package, report, store
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer

pytestmark = pytest.mark.anyio

PACKAGES, PORTS = "GET /syscollector/{agent_id}/packages", "GET /syscollector/{agent_id}/ports"
ALL_PACKAGES = "GET /experimental/syscollector/packages"
UNKNOWN_AGE = {"node": None, "last_attempt": None, "last_completion": None, "complete": False}


@pytest.fixture
def office(hosts: Office) -> Office:
    report(
        hosts.world, schema.packages,
        package(1, "bash", version="5.2"), package(2, "zsh"), package(2, "Bash", version="4"), package(3, "curl"),
        package(1000, "vim"),
    )  # fmt: skip
    return hosts


async def test_the_answer_has_the_documented_shape(office: Office) -> None:
    report(
        office.world, schema.ports,
        {
            "agent_id": 2, "item_id": "p1", "scan_time": "2024/05/02 10:00:00", "protocol": "tcp", "local_port": 22,
            "local_ip": "0.0.0.0", "remote_ip": "0.0.0.0", "remote_port": 0, "tx_queue": 0, "rx_queue": 0,
            "inode": 18662, "state": "listening", "pid": 812,
            "process": "sshd",
        },
    )  # fmt: skip
    body = await office.ask(PORTS, agent_id="002")
    assert body["data"] == {
        "affected_items": [
            {
                "local": {"ip": "0.0.0.0", "port": 22}, "remote": {"ip": "0.0.0.0", "port": 0},
                "scan": {"id": 0, "time": "2024-05-02T10:00:00+00:00"}, "protocol": "tcp", "state": "listening",
                "inode": 18662, "tx_queue": 0, "rx_queue": 0, "pid": 812, "process": "sshd", "agent_id": "002",
            }
        ],
        "total_affected_items": 1, "total_failed_items": 0, "failed_items": [],
        "synchronization": UNKNOWN_AGE | {"node": "beta"},
    }  # fmt: skip
    assert (body["message"], body["error"]) == ("The inventory was read", 0)


async def test_an_agent_is_asked_for_at_its_node_connected_or_not(office: Office) -> None:
    assert members(await office.ask(PACKAGES, agent_id="001"), "agent_id", "name") == [("001", "bash")]
    assert members(await office.ask(PACKAGES, agent_id="003", at="gamma"), "agent_id", "name") == [("003", "curl")]
    assert members(await office.ask(PACKAGES, agent_id="1000"), "agent_id", "name") == [("1000", "vim")]


async def test_rows_that_an_agent_left_on_another_node_are_not_served(office: Office) -> None:
    store(office.world.nodes["gamma"].node.inventory, schema.packages, package(1, "stale"), package(2, "stale"))
    assert members(await office.ask(PACKAGES, agent_id="001"), "agent_id", "name") == [("001", "bash")]
    assert "stale" not in {name for (name,) in members(await office.ask(ALL_PACKAGES), "name")}


async def test_agents_without_data(office: Office) -> None:
    unknown = await office.ask(PACKAGES, agent_id="999")
    assert [(one["error"]["code"], one["id"]) for one in unknown["data"]["failed_items"]] == [(1701, ["999"])]
    assert (unknown["error"], unknown["data"]["synchronization"]) == (1, UNKNOWN_AGE)
    silent = await office.refused(PACKAGES, agent_id="005")
    assert (silent.code, silent.kind.status, silent.ids) == (2007, 400, ("005",))
    manager = await office.ask(PACKAGES, agent_id="000")
    assert (manager["data"]["affected_items"], manager["data"]["total_affected_items"]) == ([], 0)
    assert manager["data"]["synchronization"] == UNKNOWN_AGE


async def test_a_node_that_is_away_says_so(office: Office) -> None:
    office.world.peers["beta"] = AnsweringPeer(SecmonError(3022, ids=("beta",)))
    error = await office.refused(PACKAGES, agent_id="002")
    assert (error.code, list(error.nodes)) == (3022, ["beta"])


async def test_the_age_of_the_rows_is_shown(office: Office) -> None:
    bookkeeping = {"n_attempts": 1, "n_completions": 1, "last_manager_checksum": "", "last_agent_checksum": ""}
    row = {"component": "syscollector_packages", **bookkeeping}
    report(
        office.world, schema.synchronizations,
        {"agent_id": 1, "last_attempt": 1714640000, "last_completion": 1714640000, **row},
        {"agent_id": 2, "last_attempt": 1714643600, "last_completion": 1714640000, **row},
        {"agent_id": 3, "last_attempt": 1714643600, "last_completion": 0, **row},
    )  # fmt: skip
    seen = [(await office.ask(PACKAGES, agent_id=one))["data"]["synchronization"] for one in ("001", "002", "003")]
    attempt, later = "2024-05-02T08:53:20+00:00", "2024-05-02T09:53:20+00:00"
    assert seen == [
        {"node": "alpha", "last_attempt": attempt, "last_completion": attempt, "complete": True},
        {"node": "beta", "last_attempt": later, "last_completion": attempt, "complete": False},
        {"node": "beta", "last_attempt": later, "last_completion": None, "complete": False},
    ]


QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    ({"q": "name~s;name!=vim"}, ["Bash", "zsh"]),
    ({"sort": "-name"}, ["zsh", "Bash"]),
    ({"search": "BAS"}, ["Bash"]),
    ({"search": "002"}, []),
    ({"name": "bash"}, ["Bash"]),
    ({"name": "all"}, ["zsh", "Bash"]),
    ({"vendor": "null"}, ["zsh", "Bash"]),
    ({"vendor": "' OR 1=1 --"}, []),
    ({"q": "name=%' OR '1'='1"}, []),
    ({"version": "_"}, []),
    ({"offset": 1, "limit": 1, "sort": "name"}, ["zsh"]),
]


async def test_queries(office: Office) -> None:
    with Offenders() as offenders:
        for asked, found in QUERIES:
            with offenders.row(asked):
                body = await office.ask(PACKAGES, agent_id="002", **{"limit": 500, **asked})
                assert sorted(name for (name,) in members(body, "name")) == sorted(found)
                assert body["data"]["total_affected_items"] == (2 if "offset" in asked else len(found))


async def test_selected_fields_come_with_the_agent(office: Office) -> None:
    body = await office.ask(PACKAGES, agent_id="002", select=["version", "scan.time"], sort="version")
    assert body["data"]["affected_items"] == [{"agent_id": "002"}, {"agent_id": "002", "version": "4"}]
    distinct = await office.ask(PACKAGES, agent_id="002", select=["version"], distinct=True)
    assert distinct["data"]["affected_items"] == [{"agent_id": "002", "version": "4"}]


WRONG_QUERIES: list[tuple[dict[str, Any], int]] = [
    ({"select": ["checksum"]}, 1724),
    ({"sort": "agent_id"}, 1403),
    ({"q": "row_key=1"}, 1408),
    ({"q": "scan.time=never"}, 1412),
    ({"q": "name=="}, 1409),
]


async def test_a_wrong_query_is_refused_for_every_agent(office: Office) -> None:
    with Offenders() as offenders:
        for asked, code in WRONG_QUERIES:
            with offenders.row(asked):
                for agent in ("002", "999", "000"):
                    assert (await office.refused(PACKAGES, agent_id=agent, **asked)).code == code


async def test_times_of_scans_compare_as_instants(office: Office) -> None:
    report(
        office.world,
        schema.hotfixes,
        {"agent_id": 1, "hotfix": "old", "scan_time": "2024/05/01 23:59:59"},
        {"agent_id": 1, "hotfix": "new", "scan_time": "2024/05/02 10:00:00"},
        {"agent_id": 1, "hotfix": "odd", "scan_time": " "},
    )
    for q, found in (
        ("scan_time>2024-05-02", ["new"]),
        ("scan_time=2024-05-02T10:00:00Z", ["new"]),
        ("scan_time=2024-05-02 10:00:00", ["new"]),
        ("scan_id=0;scan_time<2024-05-02;scan_time>2024-05-01", ["old"]),
        ("scan_time>7d;hotfix!=odd", ["new", "old"]),
    ):
        body = await office.ask("GET /syscollector/{agent_id}/hotfixes", agent_id="001", q=q, sort="hotfix")
        assert [name for (name,) in members(body, "hotfix")] == found, q


async def test_a_lone_member_of_a_prefix_is_flat(office: Office) -> None:
    extension = {
        "agent_id": 1, "item_id": "x", "browser_name": "firefox", "browser_profile_name": " ", "user_id": "1000",
        "package_name": "Demo", "package_id": "demo@example.org", "file_hash_sha256": " ",
    }  # fmt: skip
    report(office.world, schema.browser_extensions, extension)
    report(office.world, schema.users, {"agent_id": 1, "user_name": "root", "user_id": 0})
    path = "GET /syscollector/{agent_id}"
    [item] = (await office.ask(f"{path}/browser_extensions", agent_id="001"))["data"]["affected_items"]
    assert item == {
        "browser": {"name": "firefox", "profile_name": " "}, "package": {"name": "Demo", "id": "demo@example.org"},
        "user.id": "1000", "file_hash.sha256": " ", "scan": {"id": 0}, "checksum": "c0", "agent_id": "001",
    }  # fmt: skip
    [item] = (await office.ask(f"{path}/users", agent_id="001", select=["user.name"]))["data"]["affected_items"]
    assert item == {"user.name": "root", "agent_id": "001"}


async def test_one_read_takes_three_statements_however_many_rows_there_are(office: Office) -> None:
    with counted_statements(office.world) as statements:
        await office.ask(PACKAGES, agent_id="002", limit=1)
    assert len([one for one in statements if one.startswith("SELECT")]) == 3
