"""The ``indexer`` section at work: bulk requests to one of its hosts, to the next when one does not answer."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from secmon.config.outputs import Indexer
from secmon.outputs.alert import Alert
from secmon.outputs.alert_filter import AlertFilter
from secmon.outputs.http import Answer, HttpClient
from secmon.outputs.indexer.documents import TEMPLATE_NAME, bulk, template
from secmon.outputs.output import Undelivered
from secmon.outputs.tls import client_context

log = logging.getLogger("secmon.outputs")

_SECONDS = 60.0
_BULK = {"Content-Type": "application/x-ndjson"}
_JSON = {"Content-Type": "application/json"}
_CONFLICT = 409
"""The document exists already."""
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_LOGGED = 3


class IndexerOutput:
    """Sends alerts to a search cluster. An :class:`Output`."""

    most = 1000

    def __init__(self, settings: Indexer, root: Path) -> None:
        """File names are relative to ``root``. Raises ConfigError."""
        self._filter = AlertFilter(settings.conditions)
        self.silences = settings.conditions.silences
        login = (settings.username, settings.password) if settings.username else None
        trust = client_context(settings.tls, root, "indexer")
        self._client = HttpClient(seconds=_SECONDS, trust=trust, login=login)
        self._hosts = [one.rstrip("/") for one in settings.hosts]
        self._prepared = False
        self.name = f"indexer {', '.join(sorted(urlsplit(one).hostname or '' for one in self._hosts))}"

    def wants(self, alert: Alert) -> bool:
        return self._filter.wants(alert)

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        if not self._prepared:
            await self._put_template()
        try:
            answer = await self._request("POST", "/_bulk", bulk(alerts), _BULK)
        except Undelivered:
            self._hosts.append(self._hosts.pop(0))
            raise
        if answer.refused:
            raise Undelivered(f"the request is refused with status {answer.status}: {answer.excerpt()}")
        return self._refused(answer, alerts)

    async def close(self) -> None:
        await self._client.close()

    async def _put_template(self) -> None:
        """One that exists stays: it may be that of other tools."""
        path = f"/_template/{TEMPLATE_NAME}?create=true"
        answer = await self._request("PUT", path, msgspec.json.encode(template()), _JSON)
        if answer.refused and b"already exists" not in answer.body:
            raise Undelivered(f"the template is refused with status {answer.status}: {answer.excerpt()}")
        self._prepared = True

    async def _request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return await self._client.request(method, self._hosts[0] + path, body, headers)

    def _refused(self, answer: Answer, alerts: Sequence[Alert]) -> int:
        """Documents that are refused for good. Raises Undelivered while some are refused for the moment."""
        results = _results(answer)
        if len(results) != len(alerts):
            raise Undelivered("its answer is not that of a bulk request")
        wrong = [
            (alert, status, error)
            for alert, (status, error) in zip(alerts, results, strict=True)
            if not 200 <= status < 300 and status != _CONFLICT
        ]
        passing = [error for _, status, error in wrong if status in _PASSING]
        if passing:
            raise Undelivered(f"{len(passing)} of {len(alerts)} alerts are refused for now: {passing[0][:200]}")
        for alert, status, error in wrong[:_LOGGED]:
            log.warning("%s: alert %s is refused with status %d: %s", self.name, alert.text("id"), status, error[:300])
        return len(wrong)


def _results(answer: Answer) -> list[tuple[int, str]]:
    """Status and error of each document; nothing for an answer of another shape."""
    try:
        body: Any = msgspec.json.decode(answer.body)
        return [
            (int(result["status"]), msgspec.json.encode(result.get("error", "")).decode())
            for item in body["items"]
            for result in item.values()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
