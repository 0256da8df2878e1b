"""Every kind of output where its position cannot be written: nothing is lost, and nothing comes again and again."""

import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple

import pytest

from secmon.common.clock import SystemClock
from secmon.config.outputs import Indexer, Integration, MailSettings, Recipients, SyslogOutput
from secmon.outputs.delivery import Delivery
from secmon.outputs.follower import AlertFollower, Source
from secmon.outputs.indexer.indexer_output import IndexerOutput
from secmon.outputs.integrations.service import ServiceIntegration
from secmon.outputs.mail.mail_delivery import MailDelivery, MailReceiver
from secmon.outputs.mail.sender import Sender
from secmon.outputs.syslog.syslog_output import SyslogReceiver
from tests.filelimit import file_size_limit
from tests.outputs.alert_files import AlertFiles
from tests.outputs.indexer.test_indexer_output import Cluster
from tests.outputs.mail.test_mail_delivery import smtp_server
from tests.outputs.receivers import syslog_server
from tests.outputs.running import running
from tests.outputs.web import web_server
from tests.waiting import until

pytestmark = pytest.mark.anyio

RECIPIENTS = Recipients(addresses=("day@example.org",), grouped=False)


class Place(NamedTuple):
    """What delivers to a receiver, and what has come to it so far."""

    follow: Callable[[str, Source], AlertFollower]
    came: Callable[[], list[bytes]]

    def numbers(self) -> list[int]:
        """Of the alerts that have come, repeats too."""
        return [int(one) for part in self.came() for one in re.findall(rb" n=(\d+)", part)]


@asynccontextmanager
async def syslog(files: AlertFiles) -> AsyncIterator[Place]:
    async with syslog_server() as server:
        chosen = SyslogOutput(server="127.0.0.1", port=server.port, protocol="tcp")
        make = partial(SyslogReceiver, chosen, root=files.root, host="node01", clock=SystemClock())
        yield Place(lambda *of: Delivery(make(), *of), lambda: server.messages)


@asynccontextmanager
async def webhook(files: AlertFiles) -> AsyncIterator[Place]:
    async with web_server() as server:
        make = partial(ServiceIntegration, Integration(name="webhook", hook_url=server.url), files.root)
        yield Place(lambda *of: Delivery(make(), *of), lambda: [one.body for one in server.requests])


@asynccontextmanager
async def indexer(files: AlertFiles) -> AsyncIterator[Place]:
    async with web_server() as server:
        server.answer = Cluster().answer
        make = partial(IndexerOutput, Indexer(hosts=(server.url,)), files.root)
        yield Place(lambda *of: Delivery(make(), *of), lambda: [one.body for one in server.requests])


@asynccontextmanager
async def mail(files: AlertFiles) -> AsyncIterator[Place]:
    async with smtp_server() as server:
        chosen = MailSettings(
            server="127.0.0.1", port=server.port, sender="secmon@example.org", recipients=(RECIPIENTS,)
        )
        sender = Sender(chosen, ssl.create_default_context())
        make = partial(MailReceiver, RECIPIENTS, chosen, sender, delay_seconds=0)
        yield Place(lambda *of: MailDelivery(make(), *of), lambda: [one.encode() for one in server.bodies()])


Receiver = Callable[[AlertFiles], AbstractAsyncContextManager[Place]]


@pytest.mark.parametrize("receiver", [syslog, webhook, indexer, mail])
async def test_a_full_disk_delays_and_repeats_nothing(
    files: AlertFiles, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiver(files) as place:
        async with running(files, place.follow):
            pass  # it begins with the alerts from now on
        files.number(1, 2, level=9)
        with ExitStack() as disk:
            disk.enter_context(file_size_limit(8))
            async with running(files, place.follow, killed=True) as out:
                await until(lambda: out.count("failures") >= 3)
                assert "too large" in out.follower.waits_for
                before = list(range(1, int(out.count("delivered")) + 1))
                await until(lambda: place.numbers() == before, what="those of one call have come, once")
            async with running(files, place.follow) as out:
                await until(lambda: out.count("failures") >= 3)
                await until(lambda: place.numbers() == before * 2, what="a kill has repeated one call")
                disk.close()
                await until(lambda: out.count("delivered") == 2)
                await until(lambda: not out.follower.waits_for)
            async with running(files, place.follow) as out:
                files.number(3, level=9)
                await until(lambda: out.count("delivered") == 1)
        await until(lambda: place.numbers() == [*before, 1, 2, 3])
    assert len([one for one in caplog.records if "too large" in one.getMessage()]) == 2, "once in each run"
