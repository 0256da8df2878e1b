"""A built-in integration: one HTTP request for each alert."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from secmon.common.errors import ConfigError, os_text
from secmon.config.outputs import Integration
from secmon.outputs.alert import Alert
from secmon.outputs.alert_filter import AlertFilter
from secmon.outputs.http import HttpClient
from secmon.outputs.integrations.payload import PAGERDUTY_URL, Payload, filled, pagerduty, slack
from secmon.outputs.output import Undelivered
from secmon.outputs.tls import client_context

log = logging.getLogger("secmon.outputs")

Body = Callable[[Alert], bytes]


class ServiceIntegration:
    """Posts alerts to a webhook, or to a service like Slack or PagerDuty. An :class:`Output`."""

    most = 20

    def __init__(self, settings: Integration, root: Path) -> None:
        """File names are relative to ``root``. Raises ConfigError."""
        self._filter = AlertFilter(settings.conditions)
        self.silences = settings.conditions.silences
        self._body, self._url = _body(settings, root)
        self._headers = _headers(settings)
        self._client = HttpClient(
            seconds=settings.timeout, trust=client_context(settings.tls, root, f"integration {settings.name}")
        )
        self.name = f"{settings.name} at {urlsplit(self._url).hostname}"

    def wants(self, alert: Alert) -> bool:
        return self._filter.wants(alert)

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        refused = 0
        for done, alert in enumerate(alerts):
            headers = {**self._headers, "Idempotency-Key": alert.document_id}
            try:
                answer = await self._client.request("POST", self._url, self._body(alert), headers)
            except Undelivered as error:
                raise Undelivered(str(error), done, refused) from None
            if answer.refused:
                refused += 1
                log.warning(
                    "%s: alert %s is refused with status %d: %s",
                    self.name, alert.text("id"), answer.status, answer.excerpt(),
                )  # fmt: skip
        return refused

    async def close(self) -> None:
        await self._client.close()


def _body(settings: Integration, root: Path) -> tuple[Body, str]:
    """What makes the body of a request, and its address. Raises ConfigError."""
    if settings.name == "webhook":
        return _webhook(settings, root), settings.hook_url
    made: Payload = slack if settings.name == "slack" else pagerduty(settings.api_key)
    further: dict[str, Any] = json.loads(settings.options) if settings.options else {}
    return lambda alert: msgspec.json.encode(made(alert) | further), settings.hook_url or PAGERDUTY_URL


def _webhook(settings: Integration, root: Path) -> Body:
    if settings.template:
        try:
            template = (root / settings.template).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = os_text(error) if isinstance(error, OSError) else str(error)
            raise ConfigError("integration webhook", "template", reason, "a text file", code=2000) from None
        as_json = "json" in settings.content_type
        return lambda alert: filled(template, alert, as_json=as_json)
    further: dict[str, Any] = json.loads(settings.options) if settings.options else {}
    return lambda alert: msgspec.json.encode({**alert.fields, **further}) if further else alert.line


def _headers(settings: Integration) -> dict[str, str]:
    webhook = settings.name == "webhook"
    headers = {"Content-Type": settings.content_type if webhook else "application/json"}
    if webhook and settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    return headers
