import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.api.request_log import MAX_LOGGED, RequestLog
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.api import Logs, MaxSize
from secmon.security.credentials import context_hash
from tests.localtime import zone
from tests.manual_clock import ManualClock

SECRET = "Zx9-not-to-be-seen"


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    (tmp_path / "logs").mkdir()
    with zone("Europe/Madrid"):
        yield Paths(tmp_path)


class Harness:
    """A request log in both formats, its clock at 2026/02/03 09:15:42 local, and what it has written."""

    def __init__(self, paths: Paths, **settings: Any) -> None:
        self.paths = paths
        self.clock = ManualClock(datetime(2026, 2, 3, 8, 15, 42, tzinfo=UTC))
        self.counters = Counters()
        self.log = RequestLog(paths, Logs(format="plain,json", **settings), self.clock, self.counters)

    def request(
        self,
        *,
        user: str = "ana",
        hash: str | None = None,
        method: str = "GET",
        path: str = "/agents",
        params: dict[str, str] | None = None,
        body: Any = None,
        seconds: float = 0.041,
    ) -> None:
        self.log.request(user, hash, "192.0.2.7", method, path, params or {}, body, seconds, 200)
        self.log.flush()

    def plain(self) -> list[str]:
        return (self.paths.logs / "api.log").read_text().split("\n")[:-1]

    def payload(self) -> dict[str, Any]:
        """Payload of the last JSON entry."""
        entries = (self.paths.logs / "api.json").read_text().split("\n")[:-1]
        payload: dict[str, Any] = json.loads(entries[-1])["data"]["payload"]
        return payload

    def archived(self) -> dict[str, int]:
        """Close; then the closed parts and how many lines each holds."""
        self.log.close()
        return {
            str(path.relative_to(self.paths.logs)): gzip.decompress(path.read_bytes()).count(b"\n")
            for path in sorted(self.paths.logs.rglob("*.gz"))
        }


def test_plain_entry(paths: Paths) -> None:
    harness = Harness(paths)
    harness.request(params={"limit": "5"})
    harness.request(user="portal", hash="f73b3f38acc6fb61978b96054ebcbe42", path="/rules", seconds=0.12)
    assert harness.plain() == [
        '2026/02/03 09:15:42 INFO: ana 192.0.2.7 "GET /agents" with parameters {"limit": "5"} and body {} '
        "done in 0.041s: 200",
        '2026/02/03 09:15:42 INFO: portal (f73b3f38acc6fb61978b96054ebcbe42) 192.0.2.7 "GET /rules" '
        "with parameters {} and body {} done in 0.120s: 200",
    ]


def test_json_entry(paths: Paths) -> None:
    harness = Harness(paths)
    harness.request(user="portal", hash="f73b3f38acc6fb61978b96054ebcbe42", path="/rules", seconds=0.12)
    assert (paths.logs / "api.json").read_text() == (
        '{"timestamp": "2026/02/03 09:15:42", "levelname": "INFO", "data": {"type": "request", "payload": '
        '{"user": "portal", "ip": "192.0.2.7", "http_method": "GET", "uri": "GET /rules", "parameters": {}, '
        '"body": {}, "time": "0.120s", "status_code": 200, '
        '"hash_auth_context": "f73b3f38acc6fb61978b96054ebcbe42"}}}\n'
    )
    harness.request()
    assert "hash_auth_context" not in harness.payload()


@pytest.mark.parametrize("form", ["plain", "json"])
def test_one_format_writes_one_file(paths: Paths, form: str) -> None:
    log = RequestLog(paths, Logs(format=form), ManualClock(), Counters())
    log.message("info", "x")
    log.close()
    assert [path.name for path in paths.logs.iterdir()] == [{"plain": "api.log", "json": "api.json"}[form]]


@pytest.mark.parametrize("level", ["info", "debug", "debug2"])
def test_secrets_stand_in_neither_log(paths: Paths, level: str) -> None:
    harness = Harness(paths, level=level)
    body = {"name": "x", "Password": SECRET, "deep": [{"api-key": SECRET}, {"a": {"TOKEN": [SECRET]}}], "key": SECRET}
    params = {"PassWord": SECRET, "wpk_repo": f"https://u:{SECRET}@host/x", "user": "u"}
    for path in ("/agents/insert", "/security/users", "/security/user/authenticate/run_as", "/active-response"):
        harness.request(params=params, path=path, method="POST", body=body)
    assert harness.payload()["parameters"] == {"PassWord": "****", "wpk_repo": "https://****@host/x", "user": "u"}
    assert harness.payload()["body"] == {
        "name": "x", "Password": "****", "deep": [{"api-key": "****"}, {"a": {"TOKEN": "****"}}], "key": "****"
    }  # fmt: skip
    harness.request(method="POST", body={"x": "y" * 10**5, "password": SECRET})
    harness.request(method="POST", body=[{"password": SECRET}] * 10**4)
    harness.log.headers({b"authorization": SECRET.encode(), b"cookie": SECRET.encode(), b"x-api-key": SECRET.encode()})
    for file in paths.logs.iterdir():
        assert SECRET not in file.read_text()
    assert body["Password"] == SECRET


@pytest.mark.parametrize(
    ("level", "body", "shown"),
    [
        ("info", {"events": ["a", "b"]}, {"events": 2}),
        ("info", {"events": "no list"}, {"events": 0}),
        ("info", [1], {"events": 0}),
        ("debug", {"events": ["a", "b"]}, {"events": ["a", "b"]}),
    ],
)
def test_events_are_counted(paths: Paths, level: str, body: Any, shown: Any) -> None:
    harness = Harness(paths, level=level)
    harness.request(method="POST", path="/events", body=body)
    assert harness.payload()["body"] == shown


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug2", ["DEBUG2", "DEBUG", "INFO", "WARNING", "ERROR", "INFO"]),
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR", "INFO"]),
        ("info", ["INFO", "WARNING", "ERROR", "INFO"]),
        ("bogus", ["INFO", "WARNING", "ERROR", "INFO"]),
        ("warning", ["WARNING", "ERROR"]),
        ("error", ["ERROR"]),
        ("disabled", []),
    ],
)
def test_levels(paths: Paths, level: str, written: list[str]) -> None:
    harness = Harness(paths, level=level)
    for each in ("debug2", "debug", "info", "warning", "error"):
        harness.log.message(each, "x")
    harness.request()
    lines = harness.plain() if written else []
    assert [line.split()[2].rstrip(":") for line in lines] == written
    assert (paths.logs / "api.json").exists() == bool(written)


def test_messages(paths: Paths) -> None:
    harness = Harness(paths)
    harness.log.message("warning", "Address blocked: 192.0.2.7\n2026/02/03 forged")
    harness.log.message("error", "Broken", traceback="Traceback\n  here")
    assert harness.plain() == [
        "2026/02/03 09:15:42 WARNING: Address blocked: 192.0.2.7",
        "    2026/02/03 forged",
        "2026/02/03 09:15:42 ERROR: Broken. Traceback",
        "      here",
    ]
    first, second = map(json.loads, (paths.logs / "api.json").read_text().splitlines())
    assert first["data"]["type"] == "informative"
    assert second == {
        "timestamp": "2026/02/03 09:15:42",
        "levelname": "ERROR",
        "data": {"type": "error", "payload": "Broken. Traceback\n  here"},
    }


def test_headers_at_debug2_without_credentials(paths: Paths) -> None:
    harness = Harness(paths, level="debug2")
    harness.log.headers(
        {b"authorization": b"Bearer abc", b"accept": b"*/*", b"x-auth": b"abc", b"dpop": b"abc", b"x-hub-sig": b"abc"}
    )
    assert harness.plain() == [
        "2026/02/03 09:15:42 DEBUG2: Received headers "
        '{"authorization": "****", "accept": "*/*", "x-auth": "****", "dpop": "****", "x-hub-sig": "****"}'
    ]
    silent = Harness(Paths(paths.root / "other"), level="debug")
    silent.log.headers({b"authorization": b"Bearer abc"})
    assert not (paths.root / "other").exists()


@pytest.mark.parametrize("body", [{"x": "y" * 10**6}, [["z"] * 100] * 1000, {str(n): n for n in range(20000)}])
def test_huge_bodies_are_cut(paths: Paths, body: Any) -> None:
    harness = Harness(paths)
    harness.request(body=body)
    shown = harness.payload()["body"]["truncated"]
    assert shown == json.dumps(body)[:MAX_LOGGED]
    assert len(harness.plain()[0]) < 3 * MAX_LOGGED


def test_bodies_that_cannot_be_printed(paths: Paths) -> None:
    deep: Any = {}
    for _ in range(3000):
        deep = {"a": deep}
    harness = Harness(paths)
    harness.request(body=deep, path="/security/user/authenticate/run_as")
    assert harness.payload()["body"] == "not printable"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100)
@given(user=st.text(), path=st.text(), params=st.dictionaries(st.text(), st.text(), max_size=3), body=json_values)
def test_nothing_forges_a_line(
    tmp_path_factory: pytest.TempPathFactory, user: str, path: str, params: dict[str, str], body: Any
) -> None:
    paths = Paths(tmp_path_factory.mktemp("node"))
    paths.logs.mkdir()
    harness = Harness(paths)
    harness.request(user=user, path=path, params=params, body=body)
    (line,) = harness.plain()
    assert line.startswith(("2026/02/03 08:15:42 INFO: ", "2026/02/03 09:15:42 INFO: "))
    assert not any(ord(character) < 32 and character != "\t" for character in line)
    payload = harness.payload()
    assert set(payload["parameters"]) == set(params)
    harness.log.close()


def test_day_change(paths: Paths) -> None:
    harness = Harness(paths)
    harness.request()
    harness.request()
    harness.clock.advance(14 * 3600 + 44 * 60 + 17)  # 23:59:59
    harness.request()
    harness.clock.advance(1)
    harness.request()
    assert harness.plain()[0].startswith("2026/02/04 00:00:00")
    harness.clock.advance(3 * 86400)
    harness.request()
    assert harness.archived() == {
        "api/2026/Feb/api.json-03.gz": 3,
        "api/2026/Feb/api.json-04.gz": 1,
        "api/2026/Feb/api.log-03.gz": 3,
        "api/2026/Feb/api.log-04.gz": 1,
    }


def test_entries_wait_for_a_flush(paths: Paths) -> None:
    harness = Harness(paths)
    for _ in range(3):
        harness.log.request("ana", None, "192.0.2.7", "GET", "/agents", {}, {}, 0.041, 200)
    assert not (paths.logs / "api.log").exists()
    harness.log.message("warning", "behind them")
    words = [line.split()[2] for line in harness.plain()]
    assert words == ["INFO:", "INFO:", "INFO:", "WARNING:"]
    harness.log.request("ana", None, "192.0.2.7", "GET", "/agents", {}, {}, 0.041, 200)
    harness.log.close()
    assert len(harness.plain()) == 5


def test_waiting_entries_go_to_the_file_of_their_day(paths: Paths) -> None:
    harness = Harness(paths)
    for _ in range(2):
        harness.log.request("ana", None, "192.0.2.7", "GET", "/agents", {}, {}, 0.041, 200)
    harness.clock.advance(86400)
    harness.request()
    assert harness.archived()["api/2026/Feb/api.log-03.gz"] == 2
    assert len(harness.plain()) == 1


def test_day_change_while_stopped(paths: Paths) -> None:
    first = Harness(paths)
    first.request()
    first.log.close()
    second = Harness(paths)
    second.clock.advance(86400)
    second.request()
    assert "api/2026/Feb/api.log-03.gz" in second.archived()


def test_stragglers_are_logged_after_close(paths: Paths) -> None:
    harness = Harness(paths)
    harness.request()
    harness.log.close()
    harness.clock.advance(86400)
    harness.request()
    assert len(harness.plain()) == 1
    assert (paths.logs / "api/2026/Feb/api.log-03").is_file()


def test_size(paths: Paths) -> None:
    limit = 1 << 20
    harness = Harness(paths, max_size=MaxSize(enabled=True, size="1M"))
    (paths.logs / "api.log").write_bytes(b"2020/01/01 an old entry\n" + b"x" * (limit - 224) + b"\n")
    harness.request()  # about 130 bytes: still fits, and a new day is no reason
    harness.request()
    assert len(harness.plain()) == 1
    (paths.logs / "api.log").write_bytes(b"x" * limit)
    harness.request()
    assert list(harness.archived()) == ["api/2026/Feb/api.log-03_1.gz", "api/2026/Feb/api.log-03_2.gz"]
    assert (paths.logs / "api.log").stat().st_size < limit


def test_size_among_waiting_entries(paths: Paths) -> None:
    limit = 1 << 20
    harness = Harness(paths, max_size=MaxSize(enabled=True, size="1M"))
    (paths.logs / "api.log").write_bytes(b"2020/01/01 an old entry\n" + b"x" * (limit - 224) + b"\n")
    for _ in range(4):
        harness.log.request("ana", None, "192.0.2.7", "GET", "/agents", {}, {}, 0.041, 200)
    harness.log.flush()
    assert harness.archived()["api/2026/Feb/api.log-03_1.gz"] == 3
    assert len(harness.plain()) == 3


def test_leftovers_are_compressed_at_start(paths: Paths) -> None:
    part = paths.logs / "api/2026/Feb/api.log-02"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x\n")
    assert Harness(paths).archived() == {"api/2026/Feb/api.log-02.gz": 1}


def test_trouble_is_counted_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness = Harness(Paths(tmp_path))  # without a logs folder
    harness.request()
    assert harness.counters.snapshot() == {"api.log.write_errors": 2}
    for _ in range(3):
        harness.log.request("ana", None, "192.0.2.7", "GET", "/agents", {}, {}, 0.041, 200)
    harness.log.flush()
    assert harness.counters.snapshot() == {"api.log.write_errors": 8}
    assert "api.log" in capsys.readouterr().err


def test_rotation_that_fails_loses_no_entry(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    harness = Harness(paths)
    harness.request()
    (paths.logs / "api").write_text("a file where the folder should be")
    harness.clock.advance(86400)
    harness.request()
    assert len(harness.plain()) == 2
    assert harness.counters.snapshot()["api.log.rotation_errors"] > 0
    (paths.logs / "api").unlink()
    harness.request()
    assert harness.archived()["api/2026/Feb/api.log-03.gz"] == 2
    assert "Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "2afb9b83f9314e5d029766197f539792"),
        ('{"username": "elastic"}', "7e3bd7c5ea0e07beb34e9dbef70eae6d"),
        (
            '{"name": "Initech", "auth": {"team": ["blue", "red"], "level": 3}}',
            "f73b3f38acc6fb61978b96054ebcbe42",
        ),
        (r'{"name": "Zo\u00eb", "auth": {"a": true, "b": null}}', "3fdab35034c0594959dde128a1aa4011"),
    ],
)
def test_context_hash(text: str, expected: str) -> None:
    assert context_hash(text) == context_hash(text.encode()) == context_hash(json.loads(text)) == expected
    compact = json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    assert context_hash(compact) == expected


def test_context_hash_of_no_json() -> None:
    with pytest.raises(ValueError):
        context_hash("{")


def test_run_as_login_has_the_hash_of_its_masked_body(paths: Paths) -> None:
    harness = Harness(paths)
    harness.request(path="/security/user/authenticate/run_as", method="POST", body={"username": "elastic"})
    assert harness.payload()["hash_auth_context"] == "7e3bd7c5ea0e07beb34e9dbef70eae6d"
    harness.request(path="/security/user/authenticate/run_as", method="POST", body={"password": "x"})
    assert harness.payload()["hash_auth_context"] == context_hash({"password": "****"})
