"""secmon-maild and secmon-integratord: which run, and what they deliver, with their real configuration."""

import asyncio
import json
import sys
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
from tests.outputs.indexer.test_indexer_output import Cluster
from tests.outputs.mail.test_mail_delivery import smtp_server
from tests.outputs.receivers import syslog_server
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


EVERY_KIND = """
  <integration><name>webhook</name><hook_url>{web}</hook_url></integration>
  <indexer><enabled>yes</enabled><alerts>yes</alerts><hosts><host>{search}</host></hosts></indexer>
  <syslog_output><server>127.0.0.1</server><port>{syslog}</port><protocol>tcp</protocol><format>json</format></syslog_output>
  <global><email_notification>yes</email_notification><email_to>a@b</email_to><email_from>c@d</email_from>
    <smtp_server>127.0.0.1</smtp_server><smtp_port>{mail}</smtp_port><email_maxperhour>10000</email_maxperhour></global>
  <email_alerts><email_to>e@f</email_to><do_not_delay/><do_not_group/></email_alerts>
"""
CALL_OF_A_WEBHOOK = 20


async def test_kills_lose_nothing_and_what_they_repeat_can_be_recognised(paths: Paths) -> None:
    """Of the process that delivers to all of them, while alerts are on their way."""
    files, cluster = AlertFiles(paths.root), Cluster()
    async with web_server() as web, web_server() as search, syslog_server() as syslog, smtp_server() as mailbox:
        search.answer = cluster.answer
        xml = EVERY_KIND.format(web=web.url, search=search.url, syslog=syslog.port, mail=mailbox.port)
        configure(paths, xml)

        def mails() -> list[str]:
            return [
                one["Message-ID"] for one, to in zip(mailbox.mails, mailbox.recipients, strict=True) if to == ["e@f"]
            ]

        # A webhook and a mail of each third of the alerts are the sign for a kill.
        for number, seen in enumerate((lambda: len(web.requests) > 5, lambda: len(mails()) > 25, None)):
            process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.daemons.delivering", paths.root)
            )
            await until(lambda: len(list(paths.outputs.glob("*.json"))) == 5, what="they have begun")
            files.number(*range(20 * number, 20 * number + 20), level=12)
            if seen is not None:
                await until(seen)
                process.kill()
                await process.wait()
        await until(lambda: len(set(mails())) == 60)
        await until(lambda: len({one.headers["idempotency-key"] for one in web.requests}) == 60)
        await until(lambda: len({json.loads(one[one.index(b"{") :])["id"] for one in syslog.messages}) == 60)
        await until(lambda: len(cluster.documents) == 60)
        process.kill()
        await process.wait()
    assert len(mails()) <= 62, "each kill repeats one mail"
    assert len(web.requests) <= 60 + 2 * CALL_OF_A_WEBHOOK
    files.close()
