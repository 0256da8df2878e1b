"""secmon-authd of a stand-alone node: from the port to the registry."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from secmon.agents.names import key_hash
from secmon.agents.registry.entries import entries, tombstones
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons.authd import AuthDaemon, build
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from tests.agentlink.enrolment.asking import enrol, key_of
from tests.integration.kit import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(root: Path) -> Paths:
    paths = Paths(root / "n")
    install(paths, cluster=None, agent_ports=AgentPorts(enrolment=free_port()))
    return paths


def configure(paths: Paths, old: str, new: str) -> None:
    text = paths.main_config.read_text()
    assert old in text
    paths.main_config.write_text(text.replace(old, new, 1))


@asynccontextmanager
async def running(paths: Paths) -> AsyncIterator[AuthDaemon]:
    daemon = build(Context(name="secmon-authd", paths=paths))
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()


async def test_agents_enrol_and_are_known_at_once(paths: Paths) -> None:
    async with running(paths) as daemon:
        port = daemon.settings.port
        agent, _, address, key = key_of(await enrol(port, "OSSEC A:'web-01' V:'v4.8.2' G:'default' IP:'src'"))
        assert (agent, address) == ("001", "127.0.0.1")
        with daemon.node.agents.read() as connection:
            assert [(one.line, one.group) for one in entries(connection)] == [
                (f"001 web-01 127.0.0.1 {key}", "default")
            ]
        again = f"OSSEC A:'web-01' K:'{key_hash(1, 'web-01', key)}'"
        assert await enrol(port, again) == "ERROR: Duplicate agent name: web-01ERROR: Unable to add agent"
        assert (await enrol(port, "OSSEC A:'web-02' IP:'src'")).startswith("ERROR: Duplicate IP: 127.0.0.1")
        assert (await enrol(port, "OSSEC A:'web-02' G:'none'")).startswith("ERROR: Invalid group: none")
        name = daemon.node.registrar.host_name
        assert (await enrol(port, f"OSSEC A:'{name}'")).startswith(f"ERROR: Invalid agent name: {name}")
        assert daemon.counters()["authd.accepted"] == 1
        assert daemon.active_config()["auth"]["port"] == port


async def test_replaced_agents_get_a_new_id_and_leave_no_line(paths: Paths) -> None:
    configure(paths, "<after_registration_time>1h", "<after_registration_time>0")
    async with running(paths) as daemon:
        for expected in ("001", "002"):
            assert key_of(await enrol(daemon.settings.port, "OSSEC A:'web-01'"))[0] == expected
        with daemon.node.agents.read() as connection:
            assert [one.id for one in entries(connection)] == [2]
            assert [(one.id, one.purged) for one in tombstones(connection)] == [(1, 1)]


async def test_the_highest_version_of_agents_is_configured(paths: Paths) -> None:
    request = "OSSEC A:'web-01' V:'v4.15.2'"
    async with running(paths) as daemon:
        refused = await enrol(daemon.settings.port, request)
        assert refused.startswith("ERROR: Agent version must be lower or equal to manager version")
        configure(paths, "<remote>", "<remote><agents><highest_version>4.15</highest_version></agents>")
        await daemon.reload()
        key_of(await enrol(daemon.settings.port, request))


async def test_settings_and_password_are_read_again(paths: Paths) -> None:
    async with running(paths) as daemon:
        port = daemon.settings.port
        configure(paths, "<use_password>no", "<use_password>yes")
        paths.enrolment_password.write_text("x\n")
        with pytest.raises(ConfigError):
            await daemon.reload()
        key_of(await enrol(port, "OSSEC A:'web-01'"))
        paths.enrolment_password.write_text("secret\n")
        await daemon.reload()
        assert (await enrol(port, "OSSEC A:'web-02'")).startswith("ERROR: Invalid password")
        key_of(await enrol(port, "OSSEC PASS: secret OSSEC A:'web-02'"))


async def test_without_remote_enrolment_there_is_no_port(paths: Paths) -> None:
    configure(paths, "<use_password>", "<remote_enrollment>no</remote_enrollment><use_password>")
    async with running(paths) as daemon:
        finished = asyncio.create_task(daemon.finished())
        with pytest.raises(ConnectionRefusedError):
            await enrol(daemon.settings.port, "OSSEC A:'web-01'")
        assert not finished.done()
    await finished


async def test_a_port_in_use_names_the_option(paths: Paths) -> None:
    daemon = build(Context(name="secmon-authd", paths=paths))
    with socket.create_server(("0.0.0.0", daemon.settings.port)), pytest.raises(SecmonError, match=r"auth\.port"):
        await daemon.start()
    await daemon.stop()


async def test_both_kinds_of_addresses(paths: Paths) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this host has no IPv6")
    configure(paths, "<use_source_ip>no", "<ipv6>yes</ipv6><use_source_ip>yes")
    async with running(paths) as daemon:
        port = daemon.settings.port
        assert key_of(await enrol(port, "OSSEC A:'four'"))[2] == "127.0.0.1"
        six = key_of(await enrol(port, "OSSEC A:'six'", address="::1"))[2]
        assert six == "0000:0000:0000:0000:0000:0000:0000:0001"
