"""Mail at a real SMTP server: groups, limits, logins, refusals."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP as POLICY
from functools import partial
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from secmon.config.outputs import AlertConditions, MailSettings, Recipients
from secmon.outputs.mail.mail_delivery import MailDelivery, MailReceiver
from secmon.outputs.mail.sender import Sender
from tests.manual_clock import ManualClock
from tests.outputs.alert_files import AlertFiles
from tests.outputs.conftest import Certificate
from tests.outputs.running import Running, running
from tests.waiting import until

pytestmark = pytest.mark.anyio
DAY = ("day@example.org", "night@example.org")
EVERYONE = Recipients(addresses=DAY)


class Mailbox:
    """What the server has taken; ``answer`` is its reply to a mail."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.encrypted: list[bool] = []
        self.answer = "250 OK"
        self.port = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.answer.startswith("250"):
            message = BytesParser(policy=POLICY).parsebytes(envelope.original_content or b"")
            assert isinstance(message, EmailMessage)
            self.mails.append(message)
            self.recipients.append(envelope.rcpt_tos)
            self.encrypted.append(session.ssl is not None)
        return self.answer

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, kind: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"secret", handled=False)

    def bodies(self) -> list[str]:
        return [one.get_content() for one in self.mails]


@asynccontextmanager
async def smtp_server(trust: ssl.SSLContext | None = None) -> AsyncIterator[Mailbox]:
    """``trust``: with STARTTLS, and logins thereafter."""
    mailbox = Mailbox()

    def make() -> SMTP:
        return SMTP(
            mailbox,
            tls_context=trust,
            authenticator=mailbox.authenticate if trust else None,
            auth_require_tls=True,
            loop=asyncio.get_running_loop(),
        )

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
        await server.wait_closed()


def mailing(
    files: AlertFiles,
    mailbox: Mailbox,
    *,
    recipients: Recipients = EVERYONE,
    delay: float = 0.0,
    clock: ManualClock | None = None,
    trust: ssl.SSLContext | None = None,
    killed: bool = False,
    **settings: Any,
) -> AbstractAsyncContextManager[Running]:
    chosen = MailSettings(
        server="127.0.0.1", port=mailbox.port, sender="secmon@example.org", recipients=(recipients,), **settings
    )
    sender = Sender(chosen, trust or ssl.create_default_context())
    receiver = MailReceiver(recipients, chosen, sender, delay_seconds=delay)
    return running(files, partial(MailDelivery, receiver), clock=clock, killed=killed)


async def test_one_alert(files: AlertFiles) -> None:
    async with (
        smtp_server() as mailbox,
        mailing(files, mailbox, reply_to="r@example.org", ids_name="node\nX: y") as out,
    ):
        files.number(1)  # whose rule wants no mail
        files.number(2, level=9)
        await until(lambda: out.count("delivered") == 1)
    (mail,) = mailbox.mails
    assert mail["Subject"].strip() == "secmon notification - (web-3) 192.0.2.3->/var/log/auth.log - Alert level 9"
    assert (mail["From"], mail["To"], mail["Reply-To"]) == ("secmon@example.org", ", ".join(DAY), "r@example.org")
    assert mail["X-IDS-OSSEC"] == "node X: y"
    assert mailbox.recipients == [list(DAY)]
    (body,) = mailbox.bodies()
    assert 'Rule: 5716 fired (level 9) -> "sshd: authentication failed."' in body
    assert "n=2" in body
    assert "n=1" not in body


async def test_alerts_of_some_seconds_are_one_mail(files: AlertFiles) -> None:
    clock = ManualClock()
    async with smtp_server() as mailbox, mailing(files, mailbox, delay=5, clock=clock) as out:
        files.number(*range(1, 120), level=9)
        files.number(120, level=12, rule={"id": "9", "level": 12, "description": "worse", "mail": True})
        await until(lambda: out.count("gathered") == 120)
        assert mailbox.mails == []
        clock.advance(6)
        await until(lambda: out.count("delivered") == 120)
    (mail,) = mailbox.mails
    assert mail["Subject"] == "secmon notification - 120 alerts - Highest level 12"
    (body,) = mailbox.bodies()
    assert ("n=50" in body, "n=51" in body) == (True, False)
    assert "69  5716 (level 9) sshd: authentication failed." in body
    assert "1  9 (level 12) worse" in body


async def test_more_mails_than_an_hour_may_have_come_in_one(files: AlertFiles) -> None:
    clock = ManualClock()
    recipients = Recipients(addresses=DAY, grouped=False)
    async with (
        smtp_server() as mailbox,
        mailing(files, mailbox, recipients=recipients, clock=clock, most_per_hour=3) as out,
    ):
        files.number(*range(10), level=9)
        await until(lambda: out.count("mails") == 3)
        await until(lambda: out.count("gathered") == 7)
        clock.advance(3601)
        await until(lambda: out.count("delivered") == 10)
        files.number(10, level=9)
        await until(lambda: out.count("delivered") == 11)
    assert [one["Subject"].split(" - ")[1] for one in mailbox.mails][2:4] == [
        "(web-3) 192.0.2.3->/var/log/auth.log",
        "7 alerts",
    ]


async def test_recipients_of_their_own(files: AlertFiles) -> None:
    chosen = Recipients(addresses=("db@example.org",), conditions=AlertConditions(level=10), format="sms")
    async with smtp_server() as mailbox, mailing(files, mailbox, recipients=chosen) as out:
        files.number(1, level=9)
        files.number(2, level=10)
        await until(lambda: out.count("delivered") == 1)
    assert mailbox.recipients == [["db@example.org"]]
    assert mailbox.bodies() == ["L10 web-3: sshd: authentication failed.\r\n"]


async def test_encryption_and_login(files: AlertFiles, certificate: Certificate) -> None:
    trust = ssl.create_default_context(cafile=str(certificate.file))
    login: dict[str, Any] = {"user": "u", "password": "secret", "trust": trust, "encryption": "required"}
    async with smtp_server(certificate.server) as mailbox:
        async with mailing(files, mailbox, **login) as out:
            files.number(1, level=9)
            await until(lambda: out.count("delivered") == 1)
        assert (mailbox.encrypted, mailbox.logins) == ([True], [(b"u", b"secret")])
        async with mailing(files, mailbox, **login | {"password": "wrong"}) as out:
            files.number(2, level=9)
            await until(lambda: out.count("failures"))
            assert "wrong" not in out.follower.waits_for
        async with mailing(files, mailbox, **login | {"trust": ssl.create_default_context()}) as out:
            await until(lambda: out.count("failures"))
            assert "certificate" in out.follower.waits_for.lower()
    assert len(mailbox.mails) == 1


async def test_a_server_without_encryption_gets_nothing_where_it_is_required(files: AlertFiles) -> None:
    async with smtp_server() as mailbox, mailing(files, mailbox, encryption="required") as out:
        files.number(1, level=9)
        await until(lambda: out.count("failures"))
    assert mailbox.mails == []


async def test_a_mail_that_is_refused_for_now_and_one_for_good(files: AlertFiles) -> None:
    async with smtp_server() as mailbox, mailing(files, mailbox) as out:
        mailbox.answer = "451 later"
        files.number(1, level=9)
        await until(lambda: out.count("failures") >= 2)
        mailbox.answer = "250 OK"
        await until(lambda: out.count("delivered") == 1)
        mailbox.answer = "554 spam"
        files.number(2, level=9)
        await until(lambda: out.count("refused") == 1)
        mailbox.answer = "250 OK"
        files.number(3, level=9)
        await until(lambda: out.count("delivered") == 2)
    assert len(mailbox.mails) == 2


async def test_a_kill_before_the_mail_loses_nothing(files: AlertFiles) -> None:
    clock = ManualClock()
    async with smtp_server() as mailbox:
        async with mailing(files, mailbox, delay=60, clock=clock, killed=True) as out:
            files.number(1, 2, level=9)
            await until(lambda: out.count("gathered") == 2)
        async with mailing(files, mailbox) as out:
            await until(lambda: out.count("delivered") == 2)
        files.number(3, level=9)
        async with mailing(files, mailbox) as out:
            await until(lambda: out.count("delivered") == 1)
    assert ["n=1" in one and "n=2" in one for one in mailbox.bodies()] == [True, False]
    assert len({one["Message-ID"] for one in mailbox.mails}) == 2
