"""secmon-maild: sends alerts by mail."""

from functools import partial

from secmon.config.options import load_internal_options
from secmon.config.outputs import TlsFiles, load_outputs
from secmon.daemons.daemon import Context, StartError
from secmon.daemons.output_daemon import OutputDaemon
from secmon.outputs.mail.mail_delivery import MailDelivery, MailReceiver
from secmon.outputs.mail.sender import Sender
from secmon.outputs.tls import client_context

NAME = "secmon-maild"


def build(context: Context) -> OutputDaemon:
    """The daemon for the installation in ``context.paths``. Raises ConfigError; StartError where no mail is sent."""
    settings, root = load_outputs(context.paths).mail, context.paths.root
    if settings is None:
        raise StartError(2000, "global: email_notification, email_to, email_from and smtp_server must be set")
    sender = Sender(settings, client_context(TlsFiles(ca_store=settings.ca_store), root, "global"))
    delay = load_internal_options(context.paths).get("maild.delay_seconds")
    receivers = [MailReceiver(one, settings, sender, delay_seconds=delay) for one in settings.recipients]
    outputs = [(one.name, partial(MailDelivery, one)) for one in receivers]
    return OutputDaemon(NAME, context.paths, outputs, settings.active_configuration())
