"""secmon-maild and secmon-integratord: which run, and what they deliver, with their real configuration."""

import asyncio
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons import integratord, maild
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from secmon.daemons.supervisor_settings import read_supervisor_settings
from tests.daemons.test_csyslogd import configure
from tests.integration.kit import free_port
from tests.outputs.alert_files import AlertFiles
from tests.outputs.mail.test_mail_delivery import smtp_server
from tests.outputs.web import web_server
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(root: Path) -> Paths:
    made = Paths(root / "n")
    install(made, cluster=None, agent_ports=AgentPorts(connections=free_port()))
    return made


async def test_integrations_and_mail_beside_each_other(paths: Paths) -> None:
    files = AlertFiles(paths.root)
    program = paths.root / "integrations/custom-x"
    program.write_text(f"#!/bin/sh\ncat $1 > {paths.root}/out\n")
    program.chmod(0o750)
    left_behind = paths.outputs / "alerts/custom-x-1.alert"
    left_behind.touch()
    async with web_server() as web, smtp_server() as mailbox:
        configure(
            paths,
            f"<integration><name>webhook</name><hook_url>{web.url}</hook_url></integration>"
            "<integration><name>custom-x</name></integration>"
            "<global><email_notification>yes</email_notification><email_to>a@b</email_to><smtp_server>127.0.0.1"
            f"</smtp_server><smtp_port>{mailbox.port}</smtp_port><email_from>c@d</email_from></global>"
            "<email_alerts><email_to>e@f</email_to><do_not_delay/></email_alerts>",
        )
        names = {spec.name for spec in read_supervisor_settings(paths).daemons}
        assert {"secmon-maild", "secmon-integratord"} <= names
        assert "secmon-csyslogd" not in names
        daemons = [build(Context(name="x", paths=paths)) for build in (integratord.build, maild.build)]
        for one in daemons:
            await one.start()
        assert not left_behind.exists()
        files.number(1, level=12)
        await web.received(1)
        await until(lambda: (paths.root / "out").exists())
        await until(lambda: mailbox.recipients == [["e@f"], ["a@b"]])
        await asyncio.gather(*(one.stop() for one in daemons))
    assert daemons[0].active_config()["integration"][0]["name"] == "webhook"
    assert [one["email_to"] for one in daemons[1].active_config()["alerts"]] == ["e@f"]
    files.close()
