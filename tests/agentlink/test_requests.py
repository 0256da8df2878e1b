"""Requests to agents, over both transports and over the local socket."""

import asyncio
import re
import stat
from pathlib import Path

import pytest

from secmon.agentlink.requests import BUSY, NO_ACK, NO_ANSWER, NOT_SENT
from secmon.agents.link.client import LinkClient
from secmon.agents.link.wire import AgentRequest, FollowReports, SendMessages, Statistics, encode
from secmon.common.errors import SecmonError
from secmon.common.ipc.framing import frame
from tests.agentlink.field import FieldAgent, field
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def asked(agent: FieldAgent) -> tuple[bytes, bytes]:
    """Counter and text of the next request."""
    mark, counter, text = (await agent.receive()).split(b" ", 2)
    assert mark == b"#!-req"
    return counter, text


async def test_a_request_and_its_answer_hold_any_bytes(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        task = asyncio.create_task(here.server.service.request(1, "com", b"write \0\xff 1"))
        counter, text = await asked(agent)
        assert text == b"com write \0\xff 1"
        assert re.fullmatch(rb"[0-9a-f]+", counter)
        await agent.send(b"#!-req 0 late", b"#!-req " + counter + b" ok \0\xfe\n!")
        assert await task == b"ok \0\xfe\n!"
        counts = here.server.counts
        assert (counts.sent_request, counts.request) == (1, 2)
        assert (await here.row(agent.key))["connection_status"] == "pending"  # requests are no keepalives


async def test_answers_in_any_order(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        tasks = [asyncio.create_task(here.server.service.request(1, "agent", b"%d" % number)) for number in range(20)]
        questions = [await asked(agent) for _ in tasks]
        assert len({counter for counter, _ in questions}) == 20
        for counter, text in reversed(questions):
            await agent.send(b"#!-req " + counter + b" ok " + text)
        assert await asyncio.gather(*tasks) == [b"ok agent %d" % number for number in range(20)]
        assert here.server.requests.in_flight == 0


async def test_no_answer_in_time(tmp_path: Path) -> None:
    async with field(tmp_path, answer_seconds=0.05) as here:
        agent = await (await here.agent()).start()
        assert await here.server.service.request(1, "agent", b"getstate") == NO_ANSWER
        assert here.server.requests.in_flight == 0
        counter, _ = await asked(agent)
        await agent.send(b"#!-req " + counter + b" too late")
        await agent.beat()


async def test_a_caller_may_wait_for_less(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        await (await here.agent()).start()
        assert await here.server.service.request(1, "agent", b"getstate", timeout=0.05) == NO_ANSWER


async def test_agents_that_cannot_be_reached(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        key = await here.enrol()
        assert await here.server.service.request(1, "agent", b"x") == NOT_SENT
        assert await here.server.service.request(77, "agent", b"x") == NOT_SENT
        agent = await (await here.agent(key)).start()
        assert await here.server.service.request(1, "agent", b"x" * 65408) == NOT_SENT
        clock.advance(601)
        assert await here.server.service.request(1, "agent", b"x") == NOT_SENT
        agent.close()


async def test_the_number_of_requests_is_bounded(tmp_path: Path) -> None:
    async with field(tmp_path, request_pool=1, request_turn_seconds=0.05) as here:
        agent = await (await here.agent()).start()
        first = asyncio.create_task(here.server.service.request(1, "agent", b"x"))
        counter, _ = await asked(agent)
        assert await here.server.service.request(1, "agent", b"y") == BUSY
        await agent.send(b"#!-req " + counter + b" ok")
        assert await first == b"ok"


async def test_over_udp_both_sides_acknowledge(tmp_path: Path) -> None:
    async with field(tmp_path, repeat_seconds=0.05) as here:
        agent = await (await here.agent(stream=False)).start()
        task = asyncio.create_task(here.server.service.request(1, "com", b"restart"))
        counter, _ = await asked(agent)
        again, _ = await asked(agent)  # not acknowledged: sent again
        assert again == counter
        await agent.send(b"#!-req " + counter + b" ack", b"#!-req " + counter + b" ok ")
        assert await task == b"ok "
        texts = [await agent.receive()]
        while texts[-1].startswith(b"#!-req " + counter + b" com"):
            texts.append(await agent.receive())
        assert texts[-1] == b"#!-req " + counter + b" ack"
        await agent.send(b"#!-req " + counter + b" ok ")  # the agent did not hear the acknowledgement
        assert await agent.receive() == b"#!-req " + counter + b" ack"


async def test_over_udp_without_an_acknowledgement(tmp_path: Path) -> None:
    async with field(tmp_path, repeat_seconds=0.01, attempts=3, answer_seconds=0.05) as here:
        agent = await (await here.agent(stream=False)).start()
        assert await here.server.service.request(1, "com", b"restart") == NO_ACK
        assert [(await asked(agent))[1] for _ in range(3)] == [b"com restart"] * 3
        task = asyncio.create_task(here.server.service.request(1, "com", b"restart"))
        counter, _ = await asked(agent)
        await agent.send(b"#!-req " + counter + b" ack")
        assert await task == NO_ACK


async def test_over_the_local_socket(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        client = LinkClient(here.paths.agent_link_socket)
        assert stat.S_IMODE(here.paths.agent_link_socket.stat().st_mode) == 0o660
        agent = await (await here.agent()).start()
        task = asyncio.create_task(client.request(1, "agent", b"getconfig client", timeout=5))
        counter, text = await asked(agent)
        await agent.send(b"#!-req " + counter + b" ok {}")
        assert (text, await task) == (b"agent getconfig client", b"ok {}")
        assert await client.request(9, "agent", b"x") == NOT_SENT
        assert await client.send([(1, "#!-syscheck restart"), (9, "x")]) == [9]
        assert await agent.receive() == b"#!-syscheck restart"
        assert await client.send([]) == []
        assert (await client.statistics())["name"] == "secmon-remoted"
        assert [one["id"] for one in (await client.statistics([1, 9]))["agents"]] == [1]


async def test_a_caller_that_disconnects_ends_its_request(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        await (await here.agent()).start()
        task = asyncio.create_task(LinkClient(here.paths.agent_link_socket).request(1, "agent", b"x"))
        await until(lambda: here.server.requests.in_flight == 1)
        task.cancel()
        await until(lambda: here.server.requests.in_flight == 0)


async def test_without_the_link(tmp_path: Path) -> None:
    client = LinkClient(tmp_path / "remote")
    for call in (
        client.request(1, "agent", b"x"),
        client.send([(1, "x")]),
        client.statistics(),
        anext(client.reports()),
    ):
        with pytest.raises(SecmonError) as caught:
            await call
        assert caught.value.code == 1014


async def test_the_link_that_goes_ends_calls(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        await (await here.agent()).start()
        client = LinkClient(here.paths.agent_link_socket)
        task = asyncio.create_task(client.request(1, "agent", b"x"))
        await until(lambda: here.server.requests.in_flight == 1)
    with pytest.raises(SecmonError) as caught:
        await task
    assert caught.value.code == 1014


async def test_reports_reach_their_subscribers(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        stream = LinkClient(here.paths.agent_link_socket).reports()
        waiting = asyncio.ensure_future(anext(stream))
        await until(lambda: len(here.server.local.reports))
        here.server.local.report(1, b'{"command":"x"}')
        report = await waiting
        assert (report.agent, report.payload) == (1, b'{"command":"x"}')
        await stream.aclose()
        await until(lambda: not len(here.server.local.reports))


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"\1",
        b"\xff" * 8,
        frame(b"junk"),
        frame(encode({"type": "AgentRequest"})),
        frame(encode(FollowReports()))[:-1],
    ],
)
async def test_noise_at_the_local_socket(tmp_path: Path, noise: bytes) -> None:
    async with field(tmp_path) as here:
        reader, writer = await asyncio.open_unix_connection(str(here.paths.agent_link_socket))
        writer.write(noise)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert (await LinkClient(here.paths.agent_link_socket).statistics())["metrics"]


def test_questions_survive_the_wire() -> None:
    from secmon.agents.link.wire import decode_question

    for question in (
        AgentRequest(1, "com", b"\0", None),
        AgentRequest(1, "com", b"", 1.5),
        SendMessages([(1, "x")]),
        Statistics([1]),
        FollowReports(),
    ):
        assert decode_question(encode(question)) == question
