"""One mail to the SMTP server."""

import ssl
from collections.abc import Sequence
from email.message import EmailMessage

import aiosmtplib

from secmon.config.outputs import MailSettings
from secmon.outputs.output import Undelivered

_SECONDS = 30.0


class Sender:
    """Sends over a new connection each: mails are few."""

    def __init__(self, settings: MailSettings, trust: ssl.SSLContext) -> None:
        self._settings = settings
        self._trust = trust
        self._starttls = {"required": True, "starttls": None}.get(settings.encryption, False)

    async def send(self, message: EmailMessage, recipients: Sequence[str]) -> bool:
        """Whether the server has taken the mail for one recipient at least; False: its content is refused for good.

        Raises Undelivered when it may be taken later, or by a server that is configured otherwise.
        """
        settings = self._settings
        try:
            await aiosmtplib.send(
                message,
                sender=settings.sender,
                recipients=list(recipients),
                hostname=settings.server,
                port=settings.port,
                use_tls=settings.encryption == "tls",
                start_tls=self._starttls,
                tls_context=self._trust,
                username=settings.user or None,
                password=settings.password or None,
                local_hostname=settings.helo or None,
                timeout=_SECONDS,
            )
        except aiosmtplib.SMTPDataError as error:
            if 500 <= error.code < 600:
                return False
            raise Undelivered(_reason(error)) from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise Undelivered(_reason(error)) from None
        return True


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
