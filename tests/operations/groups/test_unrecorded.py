"""What is reported of a deleted group whose files the store of record does not take."""

import pytest
from sqlalchemy import Connection, Engine

from secmon.agents.groups.folders import create_group
from secmon.common.errors import SecmonError
from tests.operations.world import World

pytestmark = pytest.mark.anyio


class Registry:
    """Records changes of the registry of agents, if there are any."""

    changed = False

    def begin(self, connection: Connection) -> None: ...

    def commit(self, connection: Connection, audit: bytes) -> bool:
        return self.changed

    def catch_up(self, engine: Engine) -> None: ...


class Files:
    """Of a node that is not the master any more."""

    async def settled(self) -> None:
        raise SecmonError(3051)


async def refused(world: World) -> SecmonError:
    with pytest.raises(SecmonError) as caught:
        await world.run("DELETE /groups", groups_list=["web"])
    return caught.value


async def test_a_change_of_which_a_part_was_made_is_not_reported_as_none(alone: World) -> None:
    node = alone.nodes["manager"].node
    node.services.file_changes = Files()
    registry = Registry()
    node.agents.record_with(lambda engine: registry)
    create_group(node.paths, "web")
    assert (await refused(alone)).code == 3051
    create_group(node.paths, "web")
    registry.changed = True
    error = await refused(alone)
    assert error.code == 3052
    assert "a part of it was made" in error.message
    assert "manager" in error.nodes
