"""Sessions of logtest and the protocol of their socket (analysis-api.md 6)."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.engine.logtest.logtest_protocol import answer
from secmon.engine.logtest.logtest_sessions import Sessions, SessionSettings
from secmon.engine.output.document import Documents, Origin
from secmon.engine.ruleset.live_ruleset import LiveRuleset
from tests.engine.ruleset.test_live_ruleset import install_rules, local, rules
from tests.manual_clock import ManualClock

TWO = """<rule id="100002" level="10" frequency="2" timeframe="60"><if_matched_sid>100001</if_matched_sid>
<description>again</description></rule>"""


class SessionHarness:
    """Sessions on the ruleset of a folder."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.clock = ManualClock()
        self.paths: Paths = install_rules(root)
        self.live = LiveRuleset(self.paths, self.clock)
        self.live.start()
        self.sessions = Sessions(
            SessionSettings(**settings),
            self.clock,
            self.live.latest,
            lambda: Documents(Origin("mgr.example")),
            root / "queue/diff",
            host=b"mgr",
        )

    def ask(self, request: object) -> Any:
        data = request if isinstance(request, bytes) else json.dumps(request).encode()
        return json.loads(answer(self.sessions, data))

    def run(self, event: object = "app 1", token: object = None, **extra: Any) -> Any:
        parameters = {"event": event, "log_format": "syslog", "location": "stdin", **extra}
        if token is not None:
            parameters["token"] = token
        return self.ask(request("log_processing", parameters))["data"]

    def remove(self, token: object) -> Any:
        return self.ask(request("remove_session", {"token": token}))


def request(command: object, parameters: object) -> dict[str, Any]:
    origin = {"name": "here", "module": "test"}
    return {"version": 1, "origin": origin, "command": command, "parameters": parameters}


@pytest.fixture
def harness(tmp_path: Path) -> SessionHarness:
    return SessionHarness(tmp_path)


def test_a_new_session_and_its_output(harness: SessionHarness) -> None:
    data = harness.run()
    token = data["token"]
    assert len(token) == 8
    assert data["messages"] == [f"INFO: (7202): Session initialized with token '{token}'"]
    assert (data["alert"], data["codemsg"]) == (True, 0)
    assert data["output"] == {
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "rule": {
            "level": 5,
            "description": "100001",
            "id": "100001",
            "firedtimes": 1,
            "mail": False,
            "groups": ["app"],
        },
        "agent": {"id": "000", "name": "mgr.example"},
        "manager": {"name": "mgr.example"},
        "id": "1767225600.0",
        "full_log": "app 1",
        "decoder": {"name": "app"},
        "location": "stdin",
    }
    again = harness.run(token=token)
    assert "messages" not in again
    assert (again["token"], again["output"]["rule"]["firedtimes"]) == (token, 2)


def test_sessions_remember_on_their_own(harness: SessionHarness) -> None:
    local(harness.paths).write_text(rules(100001).replace("</group>", TWO + "</group>"))
    one, two = harness.run()["token"], harness.run()["token"]
    assert harness.run(token=one)["output"]["rule"]["id"] == "100002"
    assert harness.run(token=two)["output"]["rule"]["firedtimes"] == 1


def test_events_without_rule_and_level_zero(harness: SessionHarness) -> None:
    data = harness.run("nothing")
    assert "rule" not in data["output"]
    assert data["alert"] is False
    local(harness.paths).write_text(rules(100001).replace('level="5"', 'level="0"'))
    data = harness.run()
    assert data["output"]["rule"]["level"] == 0
    assert data["alert"] is False
    local(harness.paths).write_text(rules(100001).replace('level="5"', 'level="2"'))
    data = harness.run()
    assert data["output"]["rule"]["level"] == 2
    assert data["alert"] is False


def test_other_forms_of_events(harness: SessionHarness) -> None:
    assert harness.run({"a": "é"})["output"]["full_log"] == '{"a":"é"}'
    agent = harness.run(location="[001] (web) any->/x")["output"]
    assert (agent["agent"], agent["location"]) == ({"id": "001", "name": "web"}, "/x")


def test_tokens_that_are_none(harness: SessionHarness) -> None:
    data = harness.run(token="00000000")
    assert [message[:15] for message in data["messages"]] == ["WARNING: (7003)", "INFO: (7202): S"]
    assert data["codemsg"] == 1
    data = harness.run(token="abc")
    assert data["messages"][0].startswith("WARNING: (7309): ")
    assert data["codemsg"] == 1


def test_a_ruleset_that_does_not_load(harness: SessionHarness) -> None:
    token = harness.run()["token"]
    local(harness.paths).write_text('<group name="x,"><rule id="1x" level="5"></rule></group>')
    data = harness.run()
    assert set(data) == {"messages", "codemsg"}
    assert data["codemsg"] == -1
    assert "etc/rules/local_rules.xml" in data["messages"][0]
    assert data["messages"][1].startswith("ERROR: (7311): ")
    assert harness.run(token=token)["codemsg"] == 0


def test_warnings_of_the_load_are_reported_once(harness: SessionHarness) -> None:
    local(harness.paths).write_text(rules(100001, 100001))
    data = harness.run()
    assert data["messages"][0].startswith("WARNING: (7612): ")
    assert data["codemsg"] == 1
    assert harness.run(token=data["token"])["codemsg"] == 0


def test_a_pattern_that_costs_too_much_is_named(harness: SessionHarness) -> None:
    costly = '<rule id="100003" level="3"><regex type="pcre2">(a+)+$</regex><description>x</description></rule>'
    local(harness.paths).write_text(f'<group name="x,">{costly}</group>')
    answer = harness.run("aaa " + "a" * 60 + "b")
    assert "(7312): The event cannot be processed: the pattern '(a+)+$' costs too much" in answer["messages"][-1]
    assert "output" not in answer


def test_removal(harness: SessionHarness) -> None:
    token = harness.run()["token"]
    reply = harness.remove(token)
    assert reply["error"] == 0
    assert reply["data"]["codemsg"] == 0
    assert reply["data"]["messages"][0].startswith("INFO: (7206): ")
    reply = harness.remove(token)
    assert (reply["error"], reply["data"]["codemsg"]) == (0, -1)
    assert reply["data"]["messages"][0].startswith("ERROR: (7004): ")
    assert harness.remove("abc")["error"] == 4
    assert harness.remove(12)["error"] == 4
    token = harness.run()["token"]
    session = harness.sessions._sessions[token]
    with session.lock:
        assert harness.remove(token)["data"]["messages"][0].startswith("ERROR: (7318): ")


def test_idle_sessions_end(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path, timeout_seconds=100)
    one = harness.run()["token"]
    harness.clock.advance(60)
    two = harness.run()["token"]
    harness.clock.advance(50)
    harness.sessions.reap()
    assert len(harness.sessions) == 1
    assert harness.run(token=one)["codemsg"] == 1
    assert harness.run(token=two)["codemsg"] == 0


def test_the_one_idle_longest_makes_room(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path, max_sessions=2)
    tokens = []
    for _ in range(3):
        tokens.append(harness.run()["token"])
        harness.clock.advance(1)
    assert (len(harness.sessions), harness.sessions.evicted) == (2, 1)
    assert harness.run(token=tokens[0])["codemsg"] == 1


def test_a_thousand_sessions_share_one_ruleset(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path, max_sessions=1000)
    harness.run()
    tracemalloc.start()
    for _ in range(999):
        harness.run()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(harness.sessions) == 1000
    assert {id(one.compiled) for one in harness.sessions._sessions.values()} == {id(harness.live.current)}
    assert size < 50 << 20


def test_refused_requests(harness: SessionHarness) -> None:
    good = request("log_processing", {"event": "x", "log_format": "syslog", "location": "l"})
    assert harness.ask(good)["error"] == 0
    assert harness.ask(b"{")["error"] == 1
    wrongs: list[object] = [
        [],
        {},
        good | {"version": 2},
        good | {"origin": {}},
        good | {"command": 1},
        good | {"parameters": {}},
        request("log_processing", {"event": "x", "location": "l"}),
        request("log_processing", {"event": 1, "log_format": "x", "location": "l"}),
        request("log_processing", {"event": "x", "log_format": "x", "location": "l", "token": 1}),
    ]
    for wrong in wrongs:
        assert harness.ask(wrong)["error"] == 2, wrong
    reply = harness.ask(request("dance", {}))
    assert (reply["error"], reply["message"]) == (3, "ERROR: (7306): Unknown command 'dance'")


def test_the_trace_of_rules(harness: SessionHarness) -> None:
    lines = harness.run(options={"rules_debug": True})["rules_debug"]
    assert "*Rule 100001 matched" in lines
    assert "rules_debug" not in harness.run(options={})
    assert harness.run(options=[])["messages"][-1].startswith("WARNING: (7005)")
    assert harness.run(options={"rules_debug": 1})["messages"][-1].startswith("WARNING: (7006)")


def test_settings() -> None:
    config = parse_main_config(
        "<ossec_config><rule_test><threads>auto</threads><max_sessions>5000</max_sessions>"
        "<session_timeout>2h</session_timeout></rule_test></ossec_config>"
    )
    made = SessionSettings.of(config, cores=4)
    assert (made.enabled, made.threads, made.max_sessions, made.timeout_seconds) == (True, 4, 1000, 7200)
    assert [note[:6] for note in made.notes] == ["(7001)"]
