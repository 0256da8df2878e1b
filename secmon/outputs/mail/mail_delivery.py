"""The delivery of mails to one list of recipients.

Alerts gather for some seconds. Beyond the limit of mails an hour they gather until the hour is over, and come in one
mail. Only what is in a mail is committed: a kill repeats the gathering, not the mail.
"""

import logging
from collections import deque
from collections.abc import Sequence

from secmon.alerts.alert_reader import Position
from secmon.config.outputs import MailSettings, Recipients
from secmon.outputs.alert import Alert
from secmon.outputs.alert_filter import AlertFilter
from secmon.outputs.follower import FIRST_PAUSE, LONGEST_PAUSE, AlertFollower, Batch, Source
from secmon.outputs.mail.digest import Digest
from secmon.outputs.mail.message import mail_of
from secmon.outputs.mail.sender import Sender
from secmon.outputs.output import Undelivered

log = logging.getLogger("secmon.outputs")

HOUR = 3600.0


class MailReceiver:
    """Recipients, and which alerts they get: those whose rules want mail, within the conditions."""

    def __init__(self, recipients: Recipients, settings: MailSettings, sender: Sender, *, delay_seconds: float) -> None:
        """``delay_seconds``: how long an alert waits for others."""
        self.recipients = recipients
        self.settings = settings
        self.sender = sender
        self.delay = delay_seconds if recipients.delay else 0.0
        self._filter = AlertFilter(recipients.conditions)
        self.silences = recipients.conditions.silences
        self.name = f"mail to {', '.join(recipients.addresses)}"

    def wants(self, alert: Alert) -> bool:
        return alert.mail and self._filter.wants(alert)

    async def close(self) -> None:
        """Nothing is kept."""


class MailDelivery(AlertFollower):
    """Mails the alerts of this node to one list of recipients."""

    def __init__(self, mail: MailReceiver, key: str, source: Source) -> None:
        super().__init__(mail, key, source)
        self._mail = mail
        self._sent: deque[float] = deque(maxlen=mail.settings.most_per_hour)
        self._digest = Digest()
        self._due = 0.0
        self._after: Position | None = None
        """Behind the last alert of the digest."""

    async def handle(self, batch: Batch | None) -> bool:
        if batch is not None:
            if not self._mail.recipients.grouped and not self._digest:
                return await self._each(batch)
            self._gather(batch.alerts, batch.position)
            if not self._digest and self.commit_due:
                await self.commit(batch.position)
            return True
        if not self._digest or self._clock.monotonic() < self._due or not self._allowed():
            return False
        await self._send()
        return True

    def restarted(self) -> None:
        """Gather again from the committed position on."""
        self._digest, self._after = Digest(), None
        self.show("gathered", 0)

    async def _each(self, batch: Batch) -> bool:
        """A mail for each alert, as long as that is allowed; the others gather."""
        for done, alert in enumerate(batch.alerts):
            if not self._allowed():
                self._gather(batch.alerts[done:], batch.position)
                return True
            self._gather([alert], batch.position.at(alert.end))
            await self._send()
            if self.stopping:
                return True
        if self.commit_due:
            await self.commit(batch.position)
        return True

    def _gather(self, alerts: Sequence[Alert], after: Position) -> None:
        if alerts and not self._digest:
            self._due = self._clock.monotonic() + self._mail.delay
        self._digest.add(alerts)
        self._after = after
        self.show("gathered", self._digest.count)

    def _allowed(self) -> bool:
        """Whether another mail may be sent within this hour."""
        return len(self._sent) < (self._sent.maxlen or 1) or self._clock.monotonic() - self._sent[0] >= HOUR

    async def _send(self) -> None:
        """Send what has gathered, and commit; nothing is done at a stop before."""
        digest, after, pause = self._digest, self._after, FIRST_PAUSE
        assert after is not None, "alerts have gathered"
        message = mail_of(digest, self._mail.settings, self._mail.recipients, self._clock.now().astimezone())
        while not self.stopping:
            try:
                taken = await self._mail.sender.send(message, self._mail.recipients.addresses)
            except Undelivered as error:
                self.failed(str(error))
                await self.pause(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
                continue
            self.succeeded()
            self._sent.append(self._clock.monotonic())
            self.count("mails")
            self.count("delivered" if taken else "refused", digest.count)
            if not taken:
                log.warning("%s: a mail with %d alerts is refused for good", self._mail.name, digest.count)
            self.restarted()
            await self.commit(after)
            return
