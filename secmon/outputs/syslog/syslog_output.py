"""A ``syslog_output`` section at work."""

import ssl
from collections.abc import Sequence
from pathlib import Path

from secmon.common.clock import Clock
from secmon.config.outputs import SyslogOutput
from secmon.outputs.alert import Alert
from secmon.outputs.alert_filter import AlertFilter
from secmon.outputs.syslog.message import MessageMaker
from secmon.outputs.syslog.transport import Datagrams, Stream, Transport
from secmon.outputs.tls import client_context


class SyslogReceiver:
    """Sends alerts to one syslog receiver. An :class:`secmon.outputs.output.Output`."""

    most = 500

    def __init__(self, settings: SyslogOutput, *, root: Path, host: str, clock: Clock) -> None:
        """``root``: file names are relative to it; ``host``: the full name of this host. Raises ConfigError."""
        self._filter = AlertFilter(settings.conditions)
        self.silences = settings.conditions.silences
        self._maker = MessageMaker(settings, host if settings.use_fqdn else host.partition(".")[0])
        trust = client_context(settings.tls, root, "syslog_output") if settings.protocol == "tls" else None
        self._transport = _transport(settings, trust)
        self._clock = clock
        self.name = f"syslog to {settings.server}:{settings.port} ({settings.protocol})"

    def wants(self, alert: Alert) -> bool:
        return self._filter.wants(alert)

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        now = self._clock.now().astimezone()
        await self._transport.send([self._maker.message(one, now) for one in alerts])
        return 0

    async def close(self) -> None:
        await self._transport.close()


def _transport(settings: SyslogOutput, trust: ssl.SSLContext | None) -> Transport:
    if settings.protocol == "udp":
        return Datagrams(settings.server, settings.port)
    counted = trust is not None or settings.rfc == 5424
    return Stream(settings.server, settings.port, trust=trust, counted=counted)
