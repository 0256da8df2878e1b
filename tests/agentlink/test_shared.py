"""Shared files: when they are sent, in which messages, and when not."""

from hashlib import md5
from pathlib import Path
from secrets import token_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.agentlink import shared
from secmon.agentlink.file_push import PIECE, cut
from secmon.agents.registry.registry import assign
from tests.agentlink.field import ACK, Field, FieldAgent, field, keepalive
from tests.agents.wire import vectors
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio

SEQUENCE = vectors.section("push_sequence")
MERGED = (
    bytes.fromhex(next(one["merged_hex"] for one in vectors.section("merged_files") if one["group"] == "linux")) * 5
)


def digest(data: bytes) -> str:
    return md5(data).hexdigest()


async def pushed(agent: FieldAgent) -> tuple[str, bytes]:
    """One whole push: the sum announced, and the file."""
    first = (await agent.receive()).decode()
    assert first.startswith("#!-up file ")
    assert first.endswith(" merged.mg\n")
    data = b""
    while (text := await agent.receive()) != b"#!-close file ":
        assert len(text) <= PIECE
        data += text
    return first.split()[2], data


async def linux_agent(here: Field, *, stream: bool = True) -> FieldAgent:
    return await (await here.agent(await here.enrol(groups=("linux",)), stream=stream)).start()


@pytest.mark.parametrize("stream", [True, False])
async def test_the_messages_of_a_push(tmp_path: Path, stream: bool) -> None:
    assert (len(MERGED), digest(MERGED)) == (SEQUENCE["file_length"], SEQUENCE["file_md5"])
    async with field(tmp_path) as here:
        here.write_merged("linux", MERGED)
        agent = await linux_agent(here, stream=stream)
        await agent.beat()
        assert (await here.row(agent.key))["group_config_status"] == "not synced"
        for message in SEQUENCE["messages"]:
            assert await agent.receive() == message["text"].encode()
        await until(lambda: not here.server.agents.by_number[1].delivery.pushing)
        assert here.server.counts.shared == 4
        await agent.beat(digest(MERGED))
        assert (await here.row(agent.key))["group_config_status"] == "synced"


async def test_an_agent_that_has_the_files_gets_no_push(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        here.write_merged("linux", MERGED)
        agent = await linux_agent(here)
        await agent.beat(digest(MERGED))
        await agent.beat(digest(MERGED))
        assert here.server.counts.shared == 0


async def test_a_changed_file_is_sent_at_once(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        here.write_merged("linux", MERGED)
        agent = await linux_agent(here)
        await agent.beat(digest(MERGED))
        here.write_merged("linux", MERGED[:-1])
        assert await pushed(agent) == (digest(MERGED[:-1]), MERGED[:-1])
        assert (await here.row(agent.key))["group_config_status"] == "not synced"


async def test_another_group_brings_other_files(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        here.write_merged("linux", MERGED)
        here.write_merged("web", b"#web\n")
        agent = await linux_agent(here)
        await agent.beat(digest(MERGED))
        with here.store.write() as connection:
            assign(connection, {1: ["web"]})
        assert await pushed(agent) == (digest(b"#web\n"), b"#web\n")


async def test_a_change_is_found_by_notification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SAFETY_SECONDS", 3600.0)
    async with field(tmp_path) as here:
        here.write_merged("linux", b"#linux\n")
        agent = await linux_agent(here)
        await agent.beat(digest(b"#linux\n"))
        await until(here.paths.merged_files_socket.exists)
        here.write_merged("linux", MERGED)
        assert (await pushed(agent))[1] == MERGED


async def test_a_change_without_notification_is_found_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SAFETY_SECONDS", 0.05)
    async with field(tmp_path) as here:
        here.write_merged("linux", b"#linux\n")
        agent = await linux_agent(here)
        await agent.beat(digest(b"#linux\n"))
        (here.paths.shared / "linux" / "merged.mg").write_bytes(MERGED)
        assert (await pushed(agent))[1] == MERGED


async def test_several_groups_have_a_folder_of_their_own(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        folder = here.paths.multigroups / "fe375984"
        folder.mkdir(parents=True)
        (folder / "merged.mg").write_bytes(b"#fe375984\n")
        agent = await (await here.agent(await here.enrol(groups=("default", "linux")))).start()
        await agent.beat()
        assert await pushed(agent) == (digest(b"#fe375984\n"), b"#fe375984\n")


async def test_agents_of_a_group_without_files_are_synced(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await linux_agent(here)
        await agent.beat()
        assert (await here.row(agent.key))["group_config_status"] == "synced"
        assert here.server.counts.shared == 0


async def test_one_push_at_a_time_and_pauses_between_those_of_the_same_files(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        here.write_merged("linux", MERGED)
        agent = await linux_agent(here)
        await agent.send(*(keepalive(labels=(f'"n":{number}',)) for number in range(5)))
        texts = [await agent.receive() for _ in range(9)]
        assert texts.count(ACK) == 5
        assert sum(text.startswith(b"#!-up file") for text in texts) == 1
        await until(lambda: not here.server.agents.by_number[1].delivery.pushing)
        for pause in (15, 30, 60):
            clock.advance(pause - 1)
            await agent.beat()
            assert await agent.ping() == b"#pong"
            clock.advance(2)
            await agent.beat()
            assert (await pushed(agent))[1] == MERGED
            await until(lambda: not here.server.agents.by_number[1].delivery.pushing)
        here.write_merged("linux", b"#linux\n")  # other files do not wait
        assert (await pushed(agent))[1] == b"#linux\n"


async def test_a_push_that_fails_is_tried_at_the_next_keepalive(tmp_path: Path) -> None:
    async with field(tmp_path, send_limit=65536, retry_seconds=0.01) as here:
        big = b"#linux\n" + token_bytes(8_000_000).replace(b"\0", b"1")
        here.write_merged("linux", big)
        agent = await linux_agent(here)
        await agent.beat()
        await until(lambda: here.server.counts.undelivered)  # the agent does not read
        await until(lambda: not here.server.agents.by_number[1].delivery.pushing)
        assert here.server.agents.by_number[1].delivery.last_push is None
        here.write_merged("linux", MERGED)
        await here.server.shared.refresh()
        again = await (await here.agent(await here.enrol("other", groups=("linux",)))).start()
        await again.beat()
        assert (await pushed(again))[1] == MERGED
        await agent.send(keepalive())
        data, text = b"", b""
        while (text, data) != (b"#!-close file ", MERGED):  # parts of what failed come first
            text = await agent.receive()
            if text.startswith(b"#!-up file"):
                data = b""
            elif not text.startswith(b"#!-"):
                data += text


async def test_many_agents_of_a_group(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        here.write_merged("linux", MERGED)
        keys = await here.enrol_all(*(f"a-{number}" for number in range(12)), groups=("linux",))
        agents = [await (await here.agent(key)).start() for key in keys]
        for agent in agents:
            await agent.beat(digest(MERGED))
        here.write_merged("linux", MERGED * 2)
        assert [(await pushed(agent))[1] for agent in agents] == [MERGED * 2] * 12


@given(st.lists(st.sampled_from([b"#!-", b"x" * 898, b"#", b"!", b"-", b"y" * 7]), max_size=30).map(b"".join))
def test_no_piece_begins_as_a_control_message(middle: bytes) -> None:
    data = b"#group\n" + middle
    pieces = list(cut(data))
    assert b"".join(pieces) == data
    assert not any(piece.startswith(b"#!-") for piece in pieces)
    assert all(0 < len(piece) <= PIECE for piece in pieces)
