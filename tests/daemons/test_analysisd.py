"""secmon-analysisd: its sockets, hot swap, local files, and a kill while events come in."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from secmon.cluster.analysis_client import EngineClient
from secmon.common.daemon_names import DAEMONS
from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import command
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons.analysisd import AnalysisDaemon, build
from secmon.daemons.control_sockets import daemon_socket
from secmon.daemons.daemon import Context, StartError
from secmon.daemons.install import install
from secmon.engine.analysis_thread import AnalysisThread
from secmon.engine.matching.implementation import FORM
from tests.engine.analysis_kit import read_alerts
from tests.engine.rules_kit import ROOTS
from tests.engine.ruleset.test_live_ruleset import CONFIG, local, rules, status
from tests.folders import REPOSITORY
from tests.integration.kit import free_port
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio
DECODER = """<decoder name="app"><prematch>^app </prematch><regex offset="after_prematch">^(\\d+)</regex>
<order>number</order></decoder>"""


@pytest.fixture
def paths(root: Path) -> Paths:
    paths = Paths(root / "n")
    install(paths, cluster=None, agent_ports=AgentPorts(enrolment=free_port()))
    paths.main_config.write_text(CONFIG)
    (paths.etc / "rules/0000-base.xml").write_text(ROOTS)
    (paths.etc / "decoders/local_decoder.xml").write_text(DECODER)
    (paths.etc / "lists/users").write_text("ana:1\n")
    local(paths).write_text(rules(100001))
    return paths


def configure(paths: Paths, more: str) -> None:
    paths.main_config.write_text(CONFIG.replace("<cluster>", f"{more}<cluster>"))


def client(paths: Paths) -> EngineClient:
    return EngineClient(paths.analysis_socket, paths.logtest_socket)


@asynccontextmanager
async def running(paths: Paths) -> AsyncIterator[AnalysisDaemon]:
    daemon = build(Context(name="secmon-analysisd", paths=paths))
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()


def found(paths: Paths) -> list[str]:
    return [alert["full_log"] for alert in read_alerts(paths)]


async def test_events_over_both_sockets_become_alerts(paths: Paths) -> None:
    async with running(paths) as daemon:
        refused = await client(paths).store(["1:API-Webhook:app 1", "x", "1:API-Webhook:" + "y" * 65521 + "z"])
        assert list(refused) == [1, 2]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(paths.queue_socket))
            sender.send(b"1:/var/log/x:app 2")
        await until(lambda: sorted(found(paths)) == ["app 1", "app 2"])
        metrics = (await client(paths).statistics())["metrics"]
        assert metrics["events"]["written_breakdown"]["alerts"] == 2
        assert (await client(paths).statistics([1, 2]))["agents"] == []
        counters = daemon.counters()["analysis"]
        assert (counters["ingested"], counters["datagrams"], counters["waits_for"]) == (1, 1, "")
        state = await until(lambda: (paths.run / "secmon-analysisd.state").exists())
        assert state
        with pytest.raises(SecmonError) as refusal:
            await client(paths)._ask("dance")
        assert refusal.value.code == 1014
    assert not paths.analysis_socket.exists()
    with pytest.raises(SecmonError) as absent:
        await client(paths).statistics()
    assert absent.value.code == 1121


async def test_it_reports_the_form_of_the_matchers(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "secmon.analysisd")
    async with running(paths) as daemon:
        assert daemon.counters()["analysis"]["matchers"] == FORM
    assert ("without the compiled module" in caplog.text) is (FORM == "plain")


async def test_a_changed_file_is_in_force_within_a_second(paths: Paths) -> None:
    async with running(paths) as daemon:
        assert daemon.service is not None
        thread = daemon.service.thread
        assert thread is not None
        local(paths).write_text(rules(100001, 100002).replace("<description>100001", "<match>old</match><description>"))
        await until(lambda: 100002 in thread.ruleset.rules.by_id)
        await client(paths).store(["1:/x:app 3"])
        await until(lambda: read_alerts(paths))
        assert read_alerts(paths)[0]["rule"]["id"] == "100002"
        local(paths).write_text("<group")
        await until(lambda: status(paths)["status"] == "rejected")
        assert 100002 in thread.ruleset.rules.by_id
        assert (await client(paths).ruleset())["error"]["file"] == "etc/rules/local_rules.xml"
        local(paths).write_text(rules(100009))
        assert (await client(paths).ruleset(refresh=True))["status"] == "current"
        await until(lambda: 100009 in thread.ruleset.rules.by_id)
        configured = CONFIG.replace(">3<", ">9<")
        paths.main_config.write_text(configured)
        await daemon.reload()
        await until(lambda: thread.ruleset.settings.alert_level == 9)
        assert daemon.active_config()["alerts"]["log_alert_level"] == 9


async def test_decoder_processes_share_the_work_and_follow_the_files(paths: Paths) -> None:
    paths.local_internal_options.write_text("analysisd.engines=3\n")
    async with running(paths) as daemon:
        assert daemon.service is not None
        thread = daemon.service.thread
        assert thread is not None
        await share(paths, thread, 1)
        local(paths).write_text(rules(100002))
        assert (await client(paths).ruleset(refresh=True))["status"] == "current"
        await until(lambda: thread.swaps, what="the swap")
        await share(paths, thread, 2)
        shown = daemon.counters()["engines"]
        assert (shown["engines"], shown["decoder_restarts"]) == (3, 0)
    assert [alert["rule"]["id"] for alert in read_alerts(paths)] == ["100001"] * 1000 + ["100002"] * 1000


async def share(paths: Paths, thread: AnalysisThread, turn: int) -> None:
    """Have decoder processes decode some of a thousand events."""
    await until(lambda: thread.counters()["decoders_ready"] == 2, what="decoder processes")
    before = thread.counters()["looked_ahead"]
    await client(paths).store([f"1:/x:app {number}" for number in range(1000)])
    await until(lambda: thread.pipeline.event_counters.received == turn * 1000, what="the analysis")
    assert thread.counters()["looked_ahead"] > before


async def test_log_tests(paths: Paths) -> None:
    async with running(paths):
        parameters = {"event": "app 7", "log_format": "syslog", "location": "stdin"}
        one = await client(paths).logtest("log_processing", parameters)
        assert one["data"]["output"]["rule"]["id"] == "100001"
        again = await client(paths).logtest("log_processing", parameters | {"token": one["data"]["token"]})
        assert again["data"]["output"]["rule"]["firedtimes"] == 2
        assert (await client(paths).logtest("dance", {}))["error"] == 3
        assert (await client(paths).logtest("log_processing", {"event": "x" * 70_000}))["error"] == 5
    configure(paths, "<rule_test><enabled>no</enabled></rule_test>")
    async with running(paths):
        assert not paths.logtest_socket.exists()


async def test_local_files(paths: Paths) -> None:
    file = paths.root / "app.log"
    configure(paths, f"<localfile><log_format>syslog</log_format><location>{file}</location></localfile>")
    file.write_text("app 1\n")
    async with running(paths) as daemon:
        with file.open("a") as more:
            more.write("app 2\n")
        await until(lambda: found(paths) and daemon.counters()["analysis"]["local_lines"], what="read and counted")
        [counted] = (await client(paths).local_files())["global"]["files"]
        assert (counted["location"], counted["events"], counted["bytes"]) == (str(file), 1, 6)
    with file.open("a") as more:
        more.write("app 3\n")
    async with running(paths):
        await until(lambda: found(paths)[-1:] == ["app 3"])
        assert read_alerts(paths)[-1]["location"] == str(file)
        assert found(paths).count("app 2") == 1


async def test_a_broken_ruleset_at_the_start(paths: Paths) -> None:
    local(paths).write_text("<group")
    with pytest.raises(StartError) as refused:
        async with running(paths):
            pass
    assert "etc/rules/local_rules.xml" in str(refused.value)
    local(paths).write_text(rules(100001))
    async with running(paths):
        pass
    local(paths).write_text("<group")
    async with running(paths) as daemon:
        assert daemon.counters()["ruleset"]["status"] == "last_good"
        await client(paths).store(["1:/x:app 3"])
        await until(lambda: found(paths) == ["app 3"])


async def test_two_of_them_do_not_share_an_installation(paths: Paths) -> None:
    async with running(paths):
        with pytest.raises(SecmonError) as second:
            async with running(paths):
                pass
        assert second.value.code == 1005


async def test_active_configuration(paths: Paths) -> None:
    async with running(paths) as daemon:
        shown = daemon.active_config()
        assert shown["rule_test"] == {"enabled": "yes", "threads": 1, "max_sessions": 64, "session_timeout": 900}
        assert shown["global"]["eps"] == {"maximum": 0, "timeframe": 10}
        assert shown["internal"]["analysisd"]["default_timeframe"] == 360
        assert any(child["sigid"] == 100001 for rule in shown["rules"] for child in [rule, *rule.get("children", [])])
        assert shown["decoders"][0]["name"] == "app"
    assert "secmon-analysisd" in DAEMONS


async def test_a_kill_loses_no_event_that_was_acknowledged(paths: Paths) -> None:
    """The real process; events are handed over while it dies, and what it has acknowledged must become alerts."""
    stored: list[int] = []
    for start in (0, 1000):
        process = spawn(paths)
        try:
            await until(lambda: paths.analysis_socket.exists() and daemon_socket(paths, "secmon-analysisd").exists())
            for first in range(start, start + 500, 50):
                numbers = range(first, first + 50)
                await client(paths).store([f"1:/x:app {number}" for number in numbers])
                stored += numbers
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        paths.analysis_socket.unlink(missing_ok=True)
        daemon_socket(paths, "secmon-analysisd").unlink(missing_ok=True)
    process = spawn(paths)
    try:
        await until(lambda: set(found(paths)) >= {f"app {number}" for number in stored}, what="all alerts")
        counters = await until_answered(paths)
        assert counters["analysis"]["failed"] == 0
    finally:
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 0


async def until_answered(paths: Paths) -> dict[str, dict[str, int]]:
    end = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            made: dict[str, dict[str, int]] = await command(daemon_socket(paths, "secmon-analysisd"), "counters")
            return made
        except SecmonError:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


def spawn(paths: Paths) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "secmon.daemons.entry", "secmon-analysisd", "--root", str(paths.root)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen([*command, "--factory", "secmon.daemons.analysisd:build"], env=environment, cwd="/")
