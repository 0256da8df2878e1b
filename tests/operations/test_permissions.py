"""Who may run which operation: every operation with requirements, for every kind of caller."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.cluster.catalogue import Operation, Place
from secmon.cluster.parameters import build
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Raw, Result, envelope
from secmon.operations.all import CATALOGUE, EXECUTABLE
from tests.offenders import Offenders
from tests.operations.examples import EXAMPLES, FAILING, prepare
from tests.operations.world import World

pytestmark = pytest.mark.anyio

GUARDED = [one for one in CATALOGUE if one.require]
ALPHA_AND_BETA = pytest.mark.parametrize("at", ["alpha", "beta"])


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    """With the operations that nodes ask of each other."""
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


@pytest.fixture
def world(cluster: World) -> World:
    cluster.membership.gone.clear()
    prepare(cluster)
    return cluster


def traces(world: World) -> list[Any]:
    """What a call can leave on the nodes: files, rows, restarts, messages to agents."""
    found: list[Any] = []
    for running in world.nodes.values():
        node = running.node
        files = {path: path.stat() for path in node.paths.etc.rglob("*") if path.is_file()}
        found += [
            {str(path): (file.st_ino, file.st_mtime_ns) for path, file in files.items()},
            running.control.restarts,
            node.security.view().revision,
            vars(node.services.agent_link),
        ]
        for tables in (node.agents, node.tasks, node.inventory):
            with tables.read() as connection:
                found.append(list(connection.connection.iterdump()))
    return found


def test_every_operation_has_an_example_that_names_its_resources() -> None:
    assert set(EXAMPLES) == {one.name for one in GUARDED}
    assert set(FAILING) <= set(EXAMPLES)
    with Offenders() as offenders:
        for one in GUARDED:
            with offenders.row(one.name):
                build(one.params, EXAMPLES[one.name])
                assert {require.param for require in one.require if require.param} <= set(EXAMPLES[one.name])


@ALPHA_AND_BETA
async def test_a_user_without_rights_is_refused_or_sees_nothing(world: World, at: str) -> None:
    before = traces(world)
    with Offenders() as offenders:
        for one in GUARDED:
            with offenders.row(one.name):
                if all(require.mode == "restrict" for require in one.require):
                    await sees_nothing(world, one, at, **EXAMPLES[one.name])
                    continue
                with pytest.raises(SecmonError) as caught:
                    await world.run(one.name, "nobody", at=at, **EXAMPLES[one.name])
                assert (caught.value.code, caught.value.kind.status) == (4000, 403)
    assert traces(world) == before


@ALPHA_AND_BETA
async def test_who_names_nothing_sees_nothing_without_rights(world: World, at: str) -> None:
    """Of lists that are optional: what may not be seen is left out."""
    with Offenders() as offenders:
        for one in GUARDED:
            lists = {require.param for require in one.require if require.mode == "each"}
            required = {parameter.name for parameter in one.parameters if parameter.required}
            if lists and not lists & required and not any(require.mode == "whole" for require in one.require):
                with offenders.row(one.name):
                    rest = {name: value for name, value in EXAMPLES[one.name].items() if name not in lists}
                    await sees_nothing(world, one, at, **rest)


async def sees_nothing(world: World, operation: Operation, at: str, **params: Any) -> None:
    body = await world.body(operation.name, "nobody", at=at, **params)
    assert "dapi_errors" not in body
    assert not list(known(body["data"]))


def known(value: Any) -> Iterator[Any]:
    """Whatever says more than 0 or nothing."""
    if isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(known, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(known, value))
    elif value:
        yield value


@ALPHA_AND_BETA
async def test_an_administrator_succeeds(world: World, at: str) -> None:
    by_name = {one.name: one for one in GUARDED}
    with Offenders() as offenders:
        for name, params in EXAMPLES.items():
            with offenders.row(name):
                if name in FAILING:
                    assert await failure(world, name, at, "admin") == FAILING[name]
                else:
                    check_answer(by_name[name], await world.run(name, at=at, **params))


async def failure(world: World, name: str, at: str, user: str) -> int | None:
    """The code of the error of the whole example, or of its first item."""
    try:
        result = await world.run(name, user, at=at, **EXAMPLES[name])
    except SecmonError as error:
        return error.code
    failures = result.failures if isinstance(result, Outcome) else []
    return failures[0].code if failures else None


def check_answer(operation: Operation, result: Result) -> None:
    """All went well, and the answer is what the API documents."""
    if isinstance(result, Raw):
        return
    body = envelope(result, operation.messages)
    assert body["error"] == 0, body
    if operation.item is not None:
        assert body["message"].startswith(operation.messages.all)
        for item in body["data"]["affected_items"]:
            check_shape(item, operation.item)
    if operation.data is not None:
        check_shape(body["data"], operation.data)


def check_shape(value: Any, declared: Any) -> None:
    """``value`` is what the API documents: no member missing, mistyped or undocumented."""
    msgspec.convert(value, declared)
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        assert set(value) <= {field.encode_name for field in msgspec.structs.fields(declared)}


MANAGER = [one for one in GUARDED if one.area == "manager"]
NODE = [one for one in GUARDED if one.area == "cluster" and one.place in (Place.NODE, Place.NODES)]


@pytest.mark.parametrize("user", ["manager_only", "cluster_only"])
async def test_either_family_of_permissions_opens_the_manager(world: World, user: str) -> None:
    with Offenders() as offenders:
        for one in MANAGER:
            with offenders.row(one.name):
                assert await failure(world, one.name, "alpha", user) == FAILING.get(one.name)


async def test_only_cluster_permissions_open_other_nodes(world: World) -> None:
    with Offenders() as offenders:
        for one in NODE:
            with offenders.row(one.name):
                assert await failure(world, one.name, "alpha", "cluster_only") == FAILING.get(one.name)
                assert await failure(world, one.name, "alpha", "manager_only") == 4000


async def test_a_grant_on_another_node_does_not_open_this_one(world: World) -> None:
    with Offenders() as offenders:
        for one in MANAGER:
            with offenders.row(one.name):
                assert await failure(world, one.name, "beta", "alpha_only") == 4000
