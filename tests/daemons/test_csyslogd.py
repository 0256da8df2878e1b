"""secmon-csyslogd with its real configuration, folders and socket."""

from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons.csyslogd import build
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from secmon.daemons.output_daemon import OutputDaemon
from secmon.daemons.supervisor_settings import read_supervisor_settings
from tests.integration.kit import free_port
from tests.outputs.alert_files import AlertFiles
from tests.outputs.receivers import syslog_server
from tests.waiting import until

pytestmark = pytest.mark.anyio


def configure(paths: Paths, xml: str) -> None:
    text = paths.main_config.read_text()
    paths.main_config.write_text(text.replace("</ossec_config>", f"{xml}</ossec_config>"))


@pytest.fixture
def paths(root: Path) -> Paths:
    made = Paths(root / "n")
    install(made, cluster=None, agent_ports=AgentPorts(connections=free_port()))
    return made


def started(paths: Paths) -> bool:
    return any(spec.name == "secmon-csyslogd" for spec in read_supervisor_settings(paths).daemons)


async def delivered(daemon: OutputDaemon, count: int) -> None:
    """Wait until the outputs of ``daemon`` have delivered so many alerts together."""
    await until(lambda: sum(value for name, value in daemon.counters().items() if name.endswith("delivered")) == count)


async def test_alerts_reach_each_receiver_and_the_positions_stay(paths: Paths) -> None:
    assert not started(paths)
    files = AlertFiles(paths.root)
    async with syslog_server() as one, syslog_server() as other:
        for server, level in ((one, 3), (other, 7)):
            configure(
                paths,
                f"<syslog_output><server>127.0.0.1</server><port>{server.port}</port><protocol>tcp</protocol>"
                f"<level>{level}</level></syslog_output>",
            )
        assert started(paths)
        files.number(1, level=9)  # before the outputs were configured
        for start in (2, 5):
            daemon = build(Context(name="secmon-csyslogd", paths=paths))
            await daemon.start()
            files.number(start, start + 1)
            files.number(start + 2, level=9)
            await delivered(daemon, 4)
            await daemon.stop()
        assert [len(one.messages), len(other.messages)] == [6, 2]
        shown = daemon.active_config()["csyslog"]
        assert [(item["port"], item["level"], item["format"]) for item in shown] == [
            (one.port, 3, "default"),
            (other.port, 7, "default"),
        ]
    files.close()


async def test_an_output_that_was_removed_begins_anew(paths: Paths) -> None:
    before = paths.main_config.read_text()
    configure(paths, "<syslog_output><server>127.0.0.1</server></syslog_output>")
    for expected in (1, 0):
        daemon = build(Context(name="secmon-csyslogd", paths=paths))
        await daemon.start()
        await daemon.stop()
        assert len(list(paths.outputs.glob("csyslogd-*"))) == expected
        paths.main_config.write_text(before)
