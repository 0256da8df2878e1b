"""A master and workers, over real TLS."""

import asyncio
from pathlib import Path

import pytest

from tests.cluster_kit import cluster
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio


async def test_workers_enrol_join_and_send_heartbeats(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        await until(lambda: len(kit.workers[0].link.members()) == 3)
        members = kit.workers[0].link.members()
        assert [(m.name, m.type, m.ip) for m in members] == [
            ("master", "master", "127.0.0.1"),
            ("alpha", "worker", "127.0.0.1"),
            ("beta", "worker", "127.0.0.1"),
        ]
        assert kit.master.sessions.members() == list(members)

        def beaten() -> bool:
            return all(item["status"]["last_keep_alive"] != "n/a" for item in kit.master.health.health()[1:])

        await until(beaten)


async def test_names_as_long_as_certificates_allow(tmp_path: Path) -> None:
    async with cluster(tmp_path, "w" * 64) as kit:
        channel = kit.master.channels.channel("w" * 64)  # TLS compares the name when the master calls the worker
        assert channel is not None
        await asyncio.wait_for(channel.channel_ready(), LIMIT_SECONDS)


async def test_a_worker_is_shown_and_called_at_the_address_that_it_states(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        await kit.start_worker("alpha", address="localhost")
        await kit.joined("alpha")
        session = kit.master.sessions.get("alpha")
        assert session is not None
        assert [member.ip for member in kit.master.sessions.members()][1:] == ["localhost"]
        assert (session.ip, session.address) == ("127.0.0.1", "localhost")
        channel = kit.master.channels.channel("alpha")
        assert channel is not None
        await channel.channel_ready()


async def test_a_worker_that_states_no_address_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        worker = await kit.start_worker("alpha", address="no address")
        await until(lambda: worker.link.refusal is not None)
        assert worker.link.refusal is not None
        assert worker.link.refusal.code == 3004
