"""The mail of a digest."""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from secmon.config.outputs import MailSettings, Recipients
from secmon.outputs.alert import Alert
from secmon.outputs.mail.digest import Digest

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MOST_SUBJECT, _MOST_LOG, _MOST_SHORT = 200, 4000, 140
_MOST_LISTED = 30


def mail_of(digest: Digest, settings: MailSettings, recipients: Recipients, now: datetime) -> EmailMessage:
    """The mail. Its Message-ID follows from the alerts, so that a repeat can be recognised."""
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.sender
    message["To"] = ", ".join(recipients.addresses)
    message["Subject"] = _one_line(_subject(digest))[:_MOST_SUBJECT]
    message["Date"] = format_datetime(now)
    ends = f"{digest.count} {digest.shown[0].document_id} {digest.shown[-1].document_id} {recipients.addresses}"
    domain = settings.sender.rpartition("@")[2]
    message["Message-ID"] = f"<{hashlib.sha256(ends.encode()).hexdigest()[:32]}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    if settings.reply_to:
        message["Reply-To"] = settings.reply_to
    if settings.ids_name:
        message["X-IDS-OSSEC"] = _one_line(settings.ids_name)
    short = recipients.format == "sms"
    message.set_content(_CONTROL.sub(" ", "\n".join(_short(digest) if short else _full(digest))), charset="utf-8")
    return message


def _subject(digest: Digest) -> str:
    first = digest.shown[0]
    if digest.count == 1:
        return f"secmon notification - {first.place} - Alert level {first.level}"
    return f"secmon notification - {digest.count} alerts - Highest level {digest.highest}"


def _short(digest: Digest) -> Iterator[str]:
    """One line for each of a few alerts."""
    for alert in digest.shown[:3]:
        yield f"L{alert.level} {alert.text('agent', 'name')}: {alert.description}"[:_MOST_SHORT]
    if digest.count > 3:
        yield f"and {digest.count - 3} more"


def _full(digest: Digest) -> Iterator[str]:
    for alert in digest.shown:
        yield from _record(alert)
    if digest.rules:
        yield f"{digest.count - len(digest.shown)} further alerts, by rule:"
        yield ""
        for rule, count in digest.rules.most_common(_MOST_LISTED):
            yield f"{count:>8}  {rule}"


def _record(alert: Alert) -> Iterator[str]:
    yield f"Time: {alert.text('timestamp')}"
    yield f"Received from: {alert.place}"
    yield f'Rule: {alert.rule} fired (level {alert.level}) -> "{alert.description}"'
    for name, field in (("Src IP", "srcip"), ("Dst IP", "dstip"), ("User", "dstuser")):
        if value := alert.text("data", field):
            yield f"{name}: {value}"
    yield f"Alert: {alert.text('id')}"
    yield "Portion of the log:"
    yield ""
    yield alert.text("full_log")[:_MOST_LOG]
    yield ""
    yield "-" * 40
    yield ""


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())
