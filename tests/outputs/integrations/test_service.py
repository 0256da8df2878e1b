"""Built-in integrations at a real HTTP server, which may misbehave."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.config.outputs import AlertConditions, Integration, TlsFiles
from secmon.outputs.alert import Alert
from secmon.outputs.delivery import Delivery
from secmon.outputs.integrations.payload import filled, pagerduty, slack
from secmon.outputs.integrations.service import ServiceIntegration
from tests.outputs.alert_files import AlertFiles, alert
from tests.outputs.conftest import Certificate
from tests.outputs.running import Running, running
from tests.outputs.web import Answer, Request, WebServer, web_server
from tests.waiting import until

pytestmark = pytest.mark.anyio


def posting(files: AlertFiles, server: WebServer, **settings: Any) -> AbstractAsyncContextManager[Running]:
    chosen = Integration(**({"name": "webhook", "hook_url": f"{server.url}/hook?token=secret"} | settings))
    return running(files, partial(Delivery, ServiceIntegration(chosen, files.root)))


def numbers(server: WebServer) -> list[int]:
    return [int(one.json()["id"].partition(".")[2]) for one in server.requests]


async def test_webhook(files: AlertFiles) -> None:
    settings = {"api_key": "k", "options": '{"team": "blue"}', "conditions": AlertConditions(level=7)}
    async with web_server() as server, posting(files, server, **settings) as out:
        files.number(1)
        files.number(2, level=9)
        await until(lambda: out.count("delivered") == 1)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/hook?token=secret")
    assert request.json() == alert(2, level=9) | {"team": "blue"}
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"].startswith("node01-1700000000.2-")


async def test_a_template(files: AlertFiles, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '{"text": "{{rule.description}} at {{ agent.name }}", "log": "{{full_log}}", "all": {{alert}}, "no": "{{x.y}}",'
        ' "level": {{rule.level}}, "groups": "{{rule.groups}}"}'
    )
    async with web_server() as server, posting(files, server, template="t.json"):
        files.number(1, full_log='a "quoted"\nlog \\ {{id}}')
        await server.received(1)
    sent = server.requests[0].json()
    assert sent == {
        "text": "sshd: authentication failed. at web-3",
        "log": 'a "quoted"\nlog \\ {{id}}',
        "all": alert(1, full_log='a "quoted"\nlog \\ {{id}}'),
        "no": "",
        "level": 5,
        "groups": '["syslog","sshd","authentication_failed"]',
    }


@given(log=st.text(), name=st.text())
def test_any_alert_fills_a_template_with_json(log: str, name: str) -> None:
    made = Alert(msgspec.json.encode(alert(1, full_log=log, agent={"name": name})))
    sent = filled('{"log": "{{full_log}}", "name": "{{agent.name}}"}', made, as_json=True)
    assert msgspec.json.decode(sent) == {"log": log, "name": name}


async def test_slack_and_pagerduty(files: AlertFiles) -> None:
    made = Alert(msgspec.json.encode(alert(1, level=12)), 77)
    attachment = slack(made)["attachments"][0]
    assert (attachment["color"], attachment["title"]) == ("danger", "sshd: authentication failed.")
    assert {"title": "Source", "value": "198.51.100.7", "short": True} in attachment["fields"]
    event = pagerduty("key")(made)
    assert (event["routing_key"], event["event_action"]) == ("key", "trigger")
    assert event["dedup_key"] == "node01-1700000000.1-77"
    assert (event["payload"]["severity"], event["payload"]["source"]) == ("critical", "web-3")
    async with web_server() as server, posting(files, server, name="slack", options='{"channel": "#sec"}'):
        files.number(1)
        await server.received(1)
    sent = server.requests[0].json()
    assert (sent["channel"], sent["attachments"][0]["fallback"]) == ("#sec", "sshd: authentication failed.")


@pytest.mark.parametrize("fault", [500, 429, 403, 302, "close", "garbage", "hang", "endless"])
async def test_a_receiver_that_misbehaves_gets_every_alert_in_the_end(files: AlertFiles, fault: Answer) -> None:
    healthy = False

    def answer(request: Request) -> Answer:
        return 200 if healthy else fault

    async with web_server() as server, posting(files, server, timeout=1) as out:
        server.answer = answer
        files.number(1, 2, 3)
        await until(lambda: out.count("failures") >= 2)
        assert out.follower.waits_for
        assert "secret" not in out.follower.waits_for
        assert out.count("delivered") == 0
        healthy = True
        await until(lambda: out.count("delivered") == 3)
        await until(lambda: not out.follower.waits_for)
    assert numbers(server)[-3:] == [1, 2, 3]


async def test_an_alert_that_is_refused_for_good_does_not_hold_up_the_others(files: AlertFiles) -> None:
    async with web_server() as server, posting(files, server) as out:
        server.answer = lambda request: 400 if b"n=2" in request.body else 200
        files.number(1, 2, 3)
        await until(lambda: out.count("delivered") == 2)
        await until(lambda: out.count("refused") == 1)
    assert numbers(server) == [1, 2, 3]


async def test_a_kill_in_the_middle_repeats_with_the_same_key(files: AlertFiles) -> None:
    async with web_server() as server:
        chosen = Integration(name="webhook", hook_url=server.url)
        for killed in (True, True, False):
            before = len(server.requests)
            async with running(files, partial(Delivery, ServiceIntegration(chosen, files.root)), killed=killed) as out:
                files.number(*range(files.written, files.written + 20))
                await server.received(before + 15)
                if not killed:
                    await until(lambda: len(set(numbers(server))) == 60)
                    await until(lambda: out.count("delivered") >= 20)
    keys = {one.headers["idempotency-key"] for one in server.requests}
    assert sorted(set(numbers(server))) == list(range(60))
    assert len(keys) == 60


async def test_tls_is_checked(files: AlertFiles, certificate: Certificate) -> None:
    async with web_server(certificate.server) as server:
        async with posting(files, server) as out:
            files.number(1)
            await until(lambda: out.count("failures"))
            assert "CERTIFICATE" in out.follower.waits_for
        assert server.requests == []
        async with posting(files, server, tls=TlsFiles(ca_store=str(certificate.file))) as out:
            await until(lambda: out.count("delivered") == 1)
