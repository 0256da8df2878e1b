"""From journals to files: order, commits, swaps, trouble with the disk, deaths."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from secmon.engine.analysis_thread import COMMIT_EVENTS
from secmon.engine.build import output_checkpoint_path
from secmon.engine.event_rate_limit import EventRateLimit
from secmon.engine.output.document import Labels
from secmon.inventory.decoded_event import DecodedEvent, encode_event
from tests.engine.analysis_kit import Analysis, analysing, read_alerts
from tests.engine.rules_kit import NODE_DECODER, below, nodes, ruleset
from tests.filelimit import file_size_limit
from tests.folders import REPOSITORY
from tests.waiting import wait_until

PLAIN = ruleset(
    '<decoder name="app"><prematch>^app </prematch><regex offset="after_prematch">^(\\d+)</regex>'
    "<order>number</order></decoder>",
    '<group name="app,"><rule id="100001" level="5"><decoded_as>app</decoded_as>'
    "<description>number $(number)</description></rule></group>",
)

SCANS = ruleset(
    NODE_DECODER,
    '<group name="scan,"><rule id="100100" level="5"><category>ossec</category><decoded_as>sca</decoded_as>'
    '<field name="sca.type">^summary$</field><description>scan</description></rule></group>',
)


def app(number: int, location: str = "/var/log/app") -> str:
    return f"1:{location}:app {number}"


def numbers(alerts: list[dict[str, Any]]) -> list[int]:
    return [int(alert["data"]["number"]) for alert in alerts]


def test_events_of_both_journals_become_alerts(tmp_path: Path) -> None:
    with analysing(tmp_path, PLAIN, labels=lambda agent: Labels(None, [("site", agent)])) as one:
        one.send([app(1), app(2, "[007] (web) any|->/x")])
        one.send([app(3), "2:192.0.2.1:nothing", "short", ""], journal=1)
        one.drained()
        alerts = one.alerts()
        assert sorted(numbers(alerts)) == [1, 2, 3]
        assert next(a for a in alerts if a["data"]["number"] == "2")["agent"]["labels"] == {"site": "007"}
        event_counters = one.event_counters
        assert (event_counters.received, event_counters.malformed, event_counters.total.processed) == (6, 2, 4)
        metrics = event_counters.metrics({})["events"]
        decoded = metrics["received_breakdown"]["decoded_breakdown"]
        assert decoded["syslog"] == 1
        assert decoded["modules_breakdown"]["logcollector_breakdown"]["others"] == 3
        assert metrics["written_breakdown"]["alerts"] == 3
        assert event_counters.agent_metrics([7, 8])[0]["metrics"]["events"]["written_breakdown"]["alerts"] == 1
        assert event_counters.state({})["alerts_written"] == 3


def test_types_of_other_consumers_are_counted_and_left_to_them(tmp_path: Path) -> None:
    with analysing(tmp_path, PLAIN, config="<global><logall_json>yes</logall_json></global>") as one:
        one.send([f"{kind}:[007] (web) any->/x:app 1" for kind in "3589depu"])
        one.drained()
        counters = one.event_counters
        assert (counters.for_others, counters.total.processed) == (8, 0)
        kinds = "dbsync", *(f"modules.{name}" for name in ("ciscat", "rootcheck", "sca", "syscheck", "syscollector"))
        assert counters.total.decoded == counters.agents[7].decoded == dict.fromkeys(kinds, 1)
        assert (tmp_path / "logs/archives/archives.json").read_bytes() == b""


def test_decoded_events_go_through_the_rules(tmp_path: Path) -> None:
    """They are counted as processed only: their messages were received and decoded before."""
    found = DecodedEvent(
        agent=7, name="web", location="(web) any->sca", decoder="sca", fields=[("sca.type", "summary")], log="text"
    )
    with analysing(tmp_path, SCANS) as one:
        one.send([encode_event(found), b"malformed", b""], journal=2)
        one.drained()
        (alert,) = one.alerts()
        assert (alert["agent"]["id"], alert["full_log"], alert["location"]) == ("007", "text", "sca")
        assert (alert["decoder"], alert["data"]) == ({"name": "sca"}, {"sca": {"type": "summary"}})
        counters = one.event_counters
        assert (counters.received, counters.malformed, counters.total.processed) == (0, 2, 1)
        assert (counters.agents[7].processed, counters.agents[7].alerts) == (1, 1)
        assert not counters.total.decoded


def test_a_decoded_event_whose_analysis_fails_is_an_alert(tmp_path: Path) -> None:
    costly = ruleset(
        NODE_DECODER,
        '<group name="scan,"><rule id="100100" level="5"><category>ossec</category><decoded_as>sca</decoded_as>'
        '<field name="sca.type" type="pcre2">(a+)+$</field><description>scan</description></rule></group>',
    )
    fields = [("sca.type", "a" * 60 + "b")]
    found = DecodedEvent(agent=7, name="web", location="(web) any->sca", decoder="sca", fields=fields, log="text")
    with analysing(tmp_path, costly) as one:
        one.send([encode_event(found)], journal=2)
        one.drained()
        (alert,) = one.alerts()
        assert (alert["rule"]["id"], alert["full_log"], alert["agent"]["id"]) == ("10", "text", "007")
        assert one.event_counters.failed == 1


def test_nobody_can_send_a_decoded_event(tmp_path: Path) -> None:
    """An agent number of 58 makes the second byte a colon, as in messages."""
    found = DecodedEvent(agent=58, name="web", location="x", decoder="sca", fields=[("sca.type", "summary")], log="")
    forged = encode_event(found)
    with analysing(tmp_path, SCANS) as one:
        one.send([forged, b"1:x:" + forged, b"p:[007] (web) any->sca:" + forged])
        one.send([forged], journal=1)
        one.drained()
        assert one.alerts() == []
        one.send([forged], journal=2)
        one.drained()
        assert len(one.alerts()) == 1


def test_a_restart_continues_at_the_committed_position(tmp_path: Path) -> None:
    with analysing(tmp_path, PLAIN) as one:
        one.send([app(number) for number in range(50)])
        one.drained()
    with analysing(tmp_path, PLAIN) as two:
        two.send([app(number) for number in range(50, 60)])
        two.drained()
        assert numbers(two.alerts()) == list(range(60))
        assert two.thread.repeated == 0


def test_a_full_disk_pauses_the_analysis(tmp_path: Path) -> None:
    with analysing(tmp_path, PLAIN) as one:
        one.send([app(0)])
        one.drained()
        live = tmp_path / "logs/alerts/alerts.json"
        before = one.committed()
        with file_size_limit(live.stat().st_size + 1000):
            one.send([app(number) for number in range(1, 2)])
            one.send([app(number) for number in range(2, 30)])
            wait_until(lambda: one.thread.waits_for, what="trouble")
            assert one.committed()[0] <= before[0] + 1
        one.drained()
        assert numbers(one.alerts()) == list(range(30))
        assert not one.thread.waits_for
        assert one.thread.waits


def test_a_stop_while_the_disk_is_full_commits_nothing(tmp_path: Path) -> None:
    one = Analysis(tmp_path, PLAIN)
    one.thread.start()
    one.send([app(0)])
    one.drained()
    with file_size_limit((tmp_path / "logs/alerts/alerts.json").stat().st_size):
        one.send([app(1)])
        wait_until(lambda: one.thread.waits_for, what="trouble")
        one.close()
    with analysing(tmp_path, PLAIN) as two:
        two.drained()
        assert numbers(two.alerts()) == [0, 1]


def test_a_swap_keeps_the_memories_of_unchanged_rules(tmp_path: Path) -> None:
    four = below(100301, 5, "<action>a</action>") + (
        '<rule id="100302" level="10" frequency="4" timeframe="300"><if_matched_sid>100301</if_matched_sid>'
        "<description>four</description></rule>"
    )
    log = "1:/x:Nov 14 22:13:20 hq noded: a /x u=u from 192.0.2.1 code 200"
    with analysing(tmp_path, nodes(four)) as one:
        one.send([log, log])
        one.drained()
        one.thread.swap(nodes(four, below(100303, 3, "<action>b</action>")))
        wait_until(lambda: one.thread.swaps, what="the swap")
        assert all(event.rule is None for event in one.thread.pipeline.engine.state.recent)
        one.send([log, log])
        one.drained()
        rules = [alert["rule"]["id"] for alert in one.alerts()]
        assert rules == ["100301", "100301", "100301", "100302"]
        one.thread.swap(nodes(below(100303, 3, "<action>a</action>")))
        wait_until(lambda: one.thread.swaps == 2, what="the swap")
        state = one.thread.pipeline.engine.state
        assert (state.composites, set(state.fired) <= {100303}) == ({}, True)
        one.send([log])
        one.drained()
        assert one.alerts()[-1]["rule"]["id"] == "100303"


def test_firewall_events_need_all_their_fields(tmp_path: Path) -> None:
    wall = ruleset(
        '<decoder name="wall"><prematch>^fw </prematch><type>firewall</type><regex offset="after_prematch">'
        r"^(\w+) (\w+) (\S+):(\d+) (\S+):(\d+)</regex><order>action,protocol,srcip,srcport,dstip,dstport</order></decoder>",
        '<group name="fw,"><rule id="100001" level="3"><if_sid>2</if_sid><decoded_as>wall</decoded_as><description>fw</description></rule></group>',
    )
    with analysing(tmp_path, wall) as one:
        one.send(["1:/x:fw deny TCP 192.0.2.1:5 192.0.2.2:6", "1:/x:fw something else"])
        one.drained()
        assert len(one.alerts()) == 1
        assert one.thread.pipeline.incomplete == 1
        line = (tmp_path / "logs/firewall/firewall.log").read_text()
        assert line.endswith("mgr->/x DROP TCP 192.0.2.1:5->192.0.2.2:6\n")


def test_credits_return_after_the_timeframe() -> None:
    one = EventRateLimit(5, 2)
    assert (one.take(8, 0.0), one.take(8, 0.5), one.take(8, 1.0), one.take(1, 1.5)) == (8, 2, 0, 0)
    assert one.seconds_over == 1
    assert (one.take(20, 2.1), one.take(1, 3.0)) == (10, 0)
    assert one.take(3, 4.2) == 3
    assert EventRateLimit(0, 10).take(1000, 0) == 1000


DYING = """
import sys, time
from pathlib import Path
from tests.engine.analysis_kit import Analysis
from tests.engine.test_analysis_thread import PLAIN, app
one = Analysis(Path(sys.argv[1]), PLAIN)
one.thread.start()
number = int(sys.argv[2])
while True:
    one.send([app(each) for each in range(number, number + 200)])
    number += 200
    print(number, flush=True)
    while one.writers[0].next - one.committed()[0] > 2000:
        time.sleep(0.001)
"""


@pytest.mark.parametrize("least", [400, 1000, 2000])
def test_a_kill_under_load_loses_nothing(tmp_path: Path, least: int) -> None:
    """The last number that the process said to have stored, and all before it, must come out."""
    stored = 0
    for _ in range(2):
        command = [sys.executable, "-c", DYING, str(tmp_path), str(stored)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
            assert process.stdout is not None
            first = len(read_whole(tmp_path))
            wanted = stored + least
            for line in process.stdout:
                stored = int(line)
                if stored >= wanted and len(read_whole(tmp_path)) > first:
                    break
            process.send_signal(signal.SIGKILL)
            stored = max([stored, *map(int, process.stdout.read().split())])
    with analysing(tmp_path, PLAIN) as last:
        last.drained()
        found = numbers(last.alerts())
        assert set(range(stored)) <= set(found)
        assert len(found) - len(set(found)) <= 2 * 2 * COMMIT_EVENTS
        assert output_checkpoint_path(last.paths).exists()


def read_whole(root: Path) -> bytes:
    path = root / "logs/alerts/alerts.json"
    return path.read_bytes() if path.exists() else b""


def test_records_that_may_be_written_twice_are_counted(tmp_path: Path) -> None:
    with analysing(tmp_path, PLAIN) as one:
        one.send([app(0), app(1)])
        one.drained()
    with (tmp_path / "logs/alerts/alerts.json").open("ab") as file:
        file.write(b'{"written":"and not committed"}\n' * 3)
    with analysing(tmp_path, PLAIN) as two:
        two.send([app(2)])
        two.drained()
        assert two.thread.repeated == 3
        assert len(read_alerts(two.paths)) == 6


@pytest.mark.parametrize("lost", [0, 30])
def test_the_log_says_whether_a_cut_record_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    """A crash cuts a record before its commit. Only a disk that loses what it had written cuts one after it."""
    with analysing(tmp_path, PLAIN) as one:
        one.send([app(0), app(1)])
        one.drained()
    alerts = tmp_path / "logs/alerts/alerts.json"
    whole = alerts.read_bytes()
    with alerts.open("r+b") as file:
        if lost:
            file.truncate(len(whole) - lost)
        else:
            file.seek(0, os.SEEK_END)
            file.write(whole[:30])
    with analysing(tmp_path, PLAIN) as two:
        two.drained()
    assert "ended in a cut record" in caplog.text
    assert ("is analysed again" in caplog.text) is not bool(lost)
    assert ("are not analysed again" in caplog.text) is bool(lost)
