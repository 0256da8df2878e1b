"""Operations that report failures item by item: the stores hold exactly what the answers say.

Faults are injected after rows were written, so that an item that fails has changed the store already.
"""

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from secmon.agents.groups import folders
from secmon.agents.groups.folders import create_group, group_exists
from secmon.agents.registry import registry
from secmon.agents.registry.entries import RunningDigest, entries
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import verify
from secmon.common.errors import SecmonError
from secmon.operations.agents import write
from secmon.operations.groups import groups as group_operations
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from tests.operations.office import Office, texts
from tests.operations.world import World
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio

FAULTS = st.sets(st.integers(0, 40), max_size=8)
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


@contextmanager
def failing_after(owner: type, method: str, faults: Set[int]) -> Iterator[None]:
    """Calls of ``method`` are numbered; those of ``faults`` raise when their work is done."""
    original = getattr(owner, method)
    calls = 0

    def called(*args: Any) -> Any:
        nonlocal calls
        result = original(*args)
        calls += 1
        if calls - 1 in faults:
            raise SecmonError(1000, f"fault {calls - 1}")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, called)
        yield


def faults_in_security(faults: Set[int]) -> Any:
    return failing_after(WriteTransaction, "_record", faults)


def faults_in_registry(faults: Set[int]) -> Any:
    return failing_after(RunningDigest, "add", faults)


class Follower:
    """A replica of the security store; what is recorded must lead it to the same rows."""

    def __init__(self, store: SecurityStore, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._store, self._replica = store, SecurityStore(folder / "security.db", writable=False)
        self._replica.apply_snapshot(store.snapshot())

    def check(self) -> None:
        base, revision = self._replica.revision(), self._store.revision()
        changes = self._store.changes_since(base)
        assert changes is not None
        self._replica.apply_changes(self._store.store_id(), base, changes, revision)
        assert self._replica.digest() == self._store.digest()
        self._replica.close()


async def ids_of(office: Office, kind: str) -> set[int]:
    return {item["id"] for item in (await office.ask(f"GET /security/{kind}"))["data"]["affected_items"]}


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [("users", "user_ids"), ("roles", "role_ids"), ("policies", "policy_ids"), ("rules", "rule_ids")],
)
@given(faults=FAULTS)
@few
async def test_deleted_objects(office: Office, tmp_path: Path, kind: str, parameter: str, faults: set[int]) -> None:
    number = office.node.security.revision()
    policies = [await office.policy([], []) for _ in range(2)]
    roles = [await office.role(f"r{number}-{each}", *policies) for each in range(2)]
    users = [await office.user(f"user{number}", *roles)] if kind in ("users", "roles") else []
    rules = [await office.rule(f"rule{number}-{each}", *roles) for each in range(2)] if kind == "rules" else []
    made = {"users": users, "roles": roles, "policies": policies, "rules": rules}[kind]
    before, follower = await ids_of(office, kind), Follower(office.node.security, tmp_path / "follower")
    with faults_in_security(faults):
        body = await office.ask(f"DELETE /security/{kind}", **{parameter: texts([*made, 1, 9999])})
    deleted = {item["id"] for item in body["data"]["affected_items"]}
    assert deleted <= set(made)
    assert await ids_of(office, kind) == before - deleted
    assert body["data"]["total_affected_items"] == len(deleted)
    follower.check()


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@given(faults=FAULTS)
@few
async def test_linked_roles(office: Office, tmp_path: Path, method: str, faults: set[int]) -> None:
    number = office.node.security.revision()
    roles = [await office.role(f"r{number}-{each}") for each in range(4)]
    before = roles[:1] if method == "POST" else roles
    user = await office.user(f"user{number}", *before)
    digest, follower = office.node.security.digest(), Follower(office.node.security, tmp_path / "follower")
    path = f"{method} /security/users/{{user_id}}/roles"
    try:
        with faults_in_security(faults):
            body = await office.ask(path, user_id=str(user), role_ids=texts([*roles, 9999]))
    except SecmonError:  # the revocation, which concerns all of the links, has failed
        assert office.node.security.digest() == digest
        return
    held = (await office.one("GET /security/users", user_ids=[str(user)]))["roles"]
    assert [item["roles"] for item in body["data"]["affected_items"]] == ([held] if held != before else [])
    done = body["data"]["total_affected_items"]
    assert len(held) == len(before) + (done if method == "POST" else -done)
    follower.check()


def groups_by_agent(store: AgentStore) -> dict[str, tuple[str, ...]]:
    with store.read() as connection:
        assert verify(connection)
        return {entry.padded: entry.groups for entry in entries(connection)}


def enrol(office: Office, name: str, *groups: str) -> str:
    with office.node.agents.write() as connection:
        return registry.add(connection, New(name=name, groups=groups), now=0).entry.padded


NAMES = ("db", "mail", "web")


@given(faults=FAULTS)
@few
async def test_deleted_groups(office: Office, faults: set[int]) -> None:
    paths, store, number = office.node.paths, office.node.agents, len(groups_by_agent(office.node.agents))
    for name in NAMES:
        if not group_exists(paths, name):
            create_group(paths, name)
    for each in range(4):
        enrol(office, f"agent{number}-{each}", *NAMES[: each + 1], "default")
    before = groups_by_agent(store)
    with faults_in_registry(faults):
        body = await office.ask("DELETE /groups", groups_list=[*NAMES, "default", "none"])
    deleted = body["data"]["affected_items"]
    failed = [one for entry in body["data"]["failed_items"] for one in entry["id"]]
    assert {name for name in NAMES if not group_exists(paths, name)} == set(deleted)
    assert groups_by_agent(store) == {
        agent: tuple(name for name in groups if name not in deleted) for agent, groups in before.items()
    }
    members = sorted(agent for agent, groups in before.items() if set(groups) & set(deleted))
    assert body["data"]["affected_agents"] == members
    assert set(deleted).isdisjoint(failed)
    assert not [path for path in paths.shared.iterdir() if path.name.startswith(".deleted")]


@given(faults=FAULTS)
@few
async def test_an_agent_taken_out_of_groups(office: Office, faults: set[int]) -> None:
    paths, store = office.node.paths, office.node.agents
    for name in NAMES:
        if not group_exists(paths, name):
            create_group(paths, name)
    agent = enrol(office, f"agent{len(groups_by_agent(store))}", "default", *NAMES)
    with faults_in_registry(faults):
        body = await office.ask("DELETE /agents/{agent_id}/group", agent_id=agent, groups_list=[*NAMES, "none"])
    left = body["data"]["affected_items"]
    assert groups_by_agent(store)[agent] == tuple(name for name in ("default", *NAMES) if name not in left)
    assert {one for entry in body["data"]["failed_items"] for one in entry["id"]} == {*NAMES, "none"} - set(left)


@given(faults=FAULTS, same=st.sets(st.integers(0, 7)))
@few
async def test_agents_added_together(office: Office, faults: set[int], same: set[int]) -> None:
    store, number = office.node.agents, len(groups_by_agent(office.node.agents))
    news = [
        New(name=f"{number}-{'same' if each in same else each}", address=f"10.{number}.0.{each}") for each in range(8)
    ]
    before = groups_by_agent(store)
    with faults_in_registry(faults):
        results = await asyncio.gather(*map(office.node.registrar.add, news), return_exceptions=True)
    added = {result.entry.padded for result in results if isinstance(result, Added)}
    assert groups_by_agent(store).keys() == before.keys() | added
    assert all(isinstance(result, Added | SecmonError) for result in results)


async def test_a_failed_commit_gives_the_folders_back(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    create_group(office.node.paths, "web")
    agent = enrol(office, "one", "web")
    original = AgentStore.write

    @contextmanager
    def write_and_fail(store: AgentStore) -> Iterator[Connection]:
        with original(store) as connection:
            yield connection
            raise OperationalError("COMMIT", None, Exception("no room"))

    monkeypatch.setattr(AgentStore, "write", write_and_fail)
    assert (await office.refused("DELETE /groups", groups_list=["web"])).code == 1000
    assert group_exists(office.node.paths, "web")
    assert groups_by_agent(office.node.agents)[agent] == ("web",)


async def test_a_folder_whose_removal_cannot_be_made_durable_stays(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_group(office.node.paths, "web")
    agent = enrol(office, "one", "web")
    monkeypatch.setattr(folders, "sync_folder", _raising(OSError(5, "Input/output error")))
    assert await office.failed("DELETE /groups", groups_list=["web"]) == [(1005, [])]
    assert group_exists(office.node.paths, "web")
    assert groups_by_agent(office.node.agents)[agent] == ("web",)


def _raising(error: Exception) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


async def test_a_client_that_goes_away_leaves_folders_and_registry_alike(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_group(office.node.paths, "web")
    agent = enrol(office, "one", "web")
    reached, go_on, ended = (threading.Event() for _ in range(3))

    def delete_and_say(*paths: Path) -> None:
        folders.delete_detached(*paths)
        ended.set()

    def detach_and_wait(*args: Any) -> Path:
        aside = folders.detach_group(*args)
        reached.set()
        assert go_on.wait(LIMIT_SECONDS)
        return aside

    monkeypatch.setattr(group_operations, "detach_group", detach_and_wait)
    monkeypatch.setattr(group_operations, "delete_detached", delete_and_say)
    request = asyncio.create_task(office.ask("DELETE /groups", groups_list=["web"]))
    await until(reached.is_set)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    go_on.set()
    await until(ended.is_set)
    assert not group_exists(office.node.paths, "web")
    assert groups_by_agent(office.node.agents)[agent] == ("default",)


async def test_a_store_that_fails_half_way_through_a_removal(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [enrol(office, f"agent{number}") for number in range(5)]
    original, calls = registry.remove, 0

    def remove(connection: Connection, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        removed = original(connection, *args, **options)
        if calls == 2:
            raise OperationalError("DELETE", None, Exception("no room"))
        return removed

    monkeypatch.setattr(write, "_BATCH", 2)
    monkeypatch.setattr(registry, "remove", remove)
    body = await office.ask("DELETE /agents", agents_list=[*agents, "999"], status=["all"], older_than="0s")
    assert body["data"]["affected_items"] == agents[:2]
    failed = [(entry["error"]["code"], entry["id"]) for entry in body["data"]["failed_items"]]
    assert failed == [(1000, agents[2:]), (1701, ["999"])]
    assert list(groups_by_agent(office.node.agents)) == agents[2:]
