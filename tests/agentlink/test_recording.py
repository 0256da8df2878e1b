"""Events of other daemons on their way into the journal."""

from pathlib import Path

import pytest

from secmon.agents.link.client import LinkClient
from secmon.common.errors import SecmonError
from tests.agentlink.field import field
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_lines_reach_the_journal_in_their_order(tmp_path: Path) -> None:
    lines = [b"1:secmon-monitord:ossec: Agent removed: 'a-any'.", b"1:x:\0\xff"]
    async with field(tmp_path) as here:
        client = LinkClient(here.paths.agent_link_socket)
        assert await client.record(lines) == 2
        assert await client.record([]) == 0
        assert await here.events(2) == lines


async def test_many_lines_are_several_questions(tmp_path: Path) -> None:
    lines = [b"1:x:%d %b" % (number, b"y" * 60_000) for number in range(300)]
    async with field(tmp_path) as here:
        assert await LinkClient(here.paths.agent_link_socket).record(lines) == 300
        assert await here.events(300) == lines


async def test_events_without_room_are_returned_to_the_caller(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        client = LinkClient(here.paths.agent_link_socket)
        here.server.events.full = True
        assert await client.record([b"1:x:y"]) == 0
        here.server.events.full = False
        assert await client.record([b"1:x:y"]) == 1
        await until(lambda: here.server.events.usage == 0)


async def test_without_the_link(tmp_path: Path) -> None:
    with pytest.raises(SecmonError) as caught:
        await LinkClient(tmp_path / "remote").record([b"1:x:y"])
    assert caught.value.code == 1014
