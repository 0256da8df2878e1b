"""Decoder processes: the same results as without them; no event is lost or doubled when they die, hang or are late."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.event import Event
from secmon.engine.lookahead.codec import LookaheadCodec
from secmon.engine.lookahead.decoder_pool import (
    BACKOFF_SECONDS,
    FEW_CORES,
    IN_FLIGHT,
    MAX_PROCESSES,
    READY_SECONDS,
    DecoderPool,
    pool_size,
)
from secmon.engine.lookahead.stateless import OTHER_CONSUMERS, look_ahead, stateless_engine
from secmon.engine.ruleset.case_files import find_files, read_file
from secmon.engine.ruleset.compiled import Ruleset, RulesetSettings
from secmon.engine.ruleset.sources import Sources, collect_folder, compile_sources
from tests.engine.analysis_kit import Analysis, analysing
from tests.engine.rules_kit import ROOTS, START
from tests.folders import REPOSITORY
from tests.manual_clock import ManualClock
from tests.waiting import wait_until

APP = (
    '<decoder name="app"><prematch>^app </prematch><regex offset="after_prematch">^(\\d+)</regex>'
    "<order>number</order></decoder>"
)


def texts(decoders: str, rules: str) -> Sources:
    return Sources(
        [("etc/decoders/d.xml", decoders.encode())],
        {},
        [("ruleset/rules/0000-base.xml", ROOTS.encode()), ("etc/rules/r.xml", rules.encode())],
    )


def plain(rule: int) -> Sources:
    """One rule for every ``app`` event, with this id."""
    return texts(
        APP,
        f'<group name="app,"><rule id="{rule}" level="5"><decoded_as>app</decoded_as>'
        "<description>number $(number)</description></rule></group>",
    )


@cache
def shipped() -> tuple[Sources, Ruleset]:
    sources = collect_folder(REPOSITORY / "ruleset")
    return sources, compile_sources(sources)


@cache
def golden() -> list[list[bytes]]:
    """Messages of the cases without their heads, the type in front; those of a case stay together."""
    cases = [case for file in find_files((REPOSITORY / "tests/ruleset",)) for case in read_file(file)]
    return [[case.queue.encode() + b"|" + log for log in case.logs] for case in cases if case.queue not in INTERNAL]


def stream(seed: int, cases: int) -> list[bytes]:
    """Messages of some cases among a few agents and the manager itself, with others in between."""
    chance = random.Random(seed)
    agents = ["/var/log/x", *(f"[{number:03d}] (web{number}) any->/var/log/x" for number in range(1, 6))]
    made = []
    for logs in chance.sample(golden(), cases):
        agent = chance.choice(agents).encode()
        for one in logs * chance.choice((1, 1, 4)):
            queue, _, log = one.partition(b"|")
            made.append(b"%b:%b:%b" % (queue, agent, log))
        if chance.random() < 0.1:
            made.append(
                chance.choice((b"", b"short", b"1:/x", b"2:192.0.2.1:nothing", b'1:/x:{"\xff":"\xfe"}', b"\xff:/x:y"))
            )
        if chance.random() < 0.1:
            made.append(chance.choice(sorted(OTHER_CONSUMERS)).encode() + b":/x:y")
    return made


@contextmanager
def with_pool(root: Path, sources: Sources, engines: int, **options: Any) -> Iterator[Analysis]:
    """A running analysis with all decoder processes ready."""
    with analysing(root, compile_sources(sources), engines=engines, sources=sources, **options) as one:
        wait_until(lambda: one.thread.failure or decoders_ready(one), what="decoder processes")
        yield one


def decoders_ready(one: Analysis) -> bool:
    counters = one.thread.counters()
    return bool(counters["decoders_ready"] == counters["engines"] - 1)


def received(one: Analysis, least: int) -> None:
    """Wait until so many events were begun with: more are on their way."""
    wait_until(lambda: one.thread.failure or one.event_counters.received > least, what="load")


def numbers(one: Analysis) -> list[int]:
    return [int(alert["data"]["number"]) for alert in one.alerts()]


def app(start: int, end: int) -> list[str]:
    return [f"1:/var/log/app:app {number}" for number in range(start, end)]


def sent(one: Analysis, sources: Sources, events: list[bytes]) -> dict[str, Any]:
    """All that the analysis of ``events`` leaves behind, and its counters."""
    assert isinstance(one.clock, ManualClock)
    for start in range(0, len(events), 400):
        one.send(events[start : start + 400])
        one.clock.advance(1)
    one.drained()
    files = [path for folder in ("logs", "queue/fts", "queue/diff") for path in (one.paths.root / folder).rglob("*")]
    thread = one.thread
    thread.stop()
    state, current = thread.pipeline.engine.state, one.paths.stats / "current.json"
    return {
        "files": {str(path.relative_to(one.paths.root)): path.read_bytes() for path in files if path.is_file()},
        "metrics": one.event_counters.metrics({}),
        "agents": one.event_counters.agent_metrics(range(10)),
        "others": (
            one.event_counters.malformed,
            one.event_counters.for_others,
            one.event_counters.failed,
            thread.pipeline.incomplete,
        ),
        "fired": state.fired,
        "recent": [(event.full_log, event.used_by_level) for event in state.recent],
        "statistics": current.read_bytes(),
    }


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("config", ["", "<global><logall_json>yes</logall_json><logall>yes</logall></global>"])
def test_results_are_the_same_with_any_number_of_engines(tmp_path: Path, seed: int, config: str) -> None:
    sources, _ = shipped()
    events = stream(seed, 700)
    found = []
    for engines in (1, 3):
        with with_pool(tmp_path / str(engines), sources, engines, config=config, clock=ManualClock(START)) as one:
            found.append(sent(one, sources, events))
            counters = one.thread.counters()
            assert counters["looked_ahead"] + counters["in_line"] == len(events)
            assert (counters["looked_ahead"] > 0) == (engines > 1)
            assert (counters["resumed"] > 0) == (engines > 1)
    assert found[0]["files"]["logs/alerts/alerts.json"].count(b"\n") > 300
    assert found[0] == found[1]


STATEFUL = texts(
    APP
    + r"""<decoder name="tx"><program_name>^tx$</program_name><accumulate/></decoder>
<decoder name="tx-a"><parent>tx</parent><prematch>^id</prematch><regex>^id=(\d+) user=(\w+)</regex><order>id, dstuser</order><accumulate/></decoder>
<decoder name="tx-b"><parent>tx</parent><regex>^end=(\d+)</regex><order>id</order></decoder>
<decoder name="login"><program_name>^login$</program_name><regex>^(\w+) from (\S+)</regex><order>user, srcip</order><fts>user, srcip</fts></decoder>
<decoder name="wall"><prematch>^fw </prematch><type>firewall</type><regex offset="after_prematch">^(\w+) (\w+) (\S+):(\d+) (\S+):(\d+)</regex><order>action,protocol,srcip,srcport,dstip,dstport</order></decoder>""",
    """<group name="x,"><rule id="100001" level="3"><decoded_as>app</decoded_as><description>app</description></rule>
<rule id="100002" level="8" frequency="3" timeframe="60" ignore="2"><if_matched_sid>100001</if_matched_sid><description>many</description></rule>
<rule id="100003" level="0"><decoded_as>tx</decoded_as><description>tx</description></rule>
<rule id="100004" level="6"><if_sid>100003</if_sid><match>^end</match><user>root</user><description>root ends</description></rule>
<rule id="100005" level="4"><decoded_as>login</decoded_as><if_fts /><description>first $(dstuser)</description></rule>
<rule id="100006" level="2"><decoded_as>login</decoded_as><check_diff /><description>another login</description></rule>
<rule id="100007" level="5" ignore="3"><if_sid>100001</if_sid><match>7$</match><description>seven</description></rule>
<rule id="100008" level="3"><if_sid>2</if_sid><decoded_as>wall</decoded_as><action>deny</action><description>denied</description></rule>
<rule id="100009" level="4"><if_sid>100005,100006</if_sid><match>ana</match><description>two places</description><group>twice,</group></rule>
<rule id="100010" level="9" frequency="4" timeframe="60"><if_matched_group>twice</if_matched_group><same_srcip /><description>twice</description><group>twice,</group></rule>
<rule id="100020" level="0" noalert="1" side_tree="yes"><decoded_as>app</decoded_as><description>side</description></rule>
<rule id="100021" level="5"><if_sid>100020</if_sid><any><match>5$</match><match>6$</match></any><description>five</description></rule>
<rule id="100022" level="9" frequency="3" timeframe="60"><if_matched_sid>100021</if_matched_sid><description>fives</description></rule>
<rule id="100023" level="7" side_tree="yes"><program_name>^login$</program_name><match>^root</match><description>root beside</description></rule></group>""",
)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rules_with_every_kind_of_memory_yield_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    head = "Nov 14 22:13:20 hq"
    events = []
    for number in range(2000):
        user, small = chance.choice(("ana", "bob", "root")), chance.randrange(30)
        log = chance.choice(
            (
                f"app {number}",
                f"{head} tx: id={small} user={user}",
                f"{head} tx: end={small}",
                f"{head} login: {user} from 192.0.2.{small}",
                f"fw {chance.choice(('deny', 'allow'))} TCP 192.0.2.1:5 192.0.2.2:6",
                "fw half",
            )
        )
        agent = chance.choice(("/x", "[001] (a) any->/x"))
        events.append(f"1:{agent}:{log}".encode())
    found = []
    for engines in (1, 3):
        with with_pool(tmp_path / str(engines), STATEFUL, engines, clock=ManualClock(START)) as one:
            found.append(sent(one, STATEFUL, events))
            rules = {alert["rule"]["id"] for alert in one.alerts()}
            assert rules >= {f"10000{number}" for number in (1, 2, 4, 5, 6, 7, 8, 9)} | {
                "100010", "100021", "100022", "100023",
            }  # fmt: skip
    assert found[0] == found[1]


def test_encoded_events_are_decoded_unchanged() -> None:
    sources, ours = shipped()
    theirs = compile_sources(sources)
    encoder, decoder, engine = LookaheadCodec(theirs), LookaheadCodec(ours), stateless_engine(theirs, b"mgr")
    decided = 0
    for one in sorted({one for logs in golden() for one in logs})[::3]:
        data = one[:1] + b":[001] (web) any->/var/log/x:" + one[2:]
        before = look_ahead(engine, data, START, archiving=True)
        after = decoder.decode(encoder.encode(before), START)
        assert (after.queue, after.component, after.agent_id, after.evaluated) == (
            before.queue, before.component, before.agent_id, before.evaluated,
        )  # fmt: skip
        assert rules_of(after.selection) == rules_of(before.selection)
        assert [rule.id for rule in after.resume] == [rule.id for rule in before.resume]
        assert after.beside == before.beside == []
        assert before.evaluated or before.resume
        decided += before.evaluated
        if before.event is None or after.event is None:
            assert before.event is after.event
        else:
            assert contents(after.event) == contents(before.event)
        if after.selection is not None:
            assert after.selection.rule is ours.rules.by_id[after.selection.rule.id]
    assert decided > 500


def test_selections_of_side_trees_are_decoded_unchanged() -> None:
    theirs, ours = compile_sources(STATEFUL), compile_sources(STATEFUL)
    encoder, decoder, engine = LookaheadCodec(theirs), LookaheadCodec(ours), stateless_engine(theirs, b"mgr")
    for text, expected in (
        (b"login: root from 192.0.2.1", [(100023, None)]),  # memory decides about the others, but not here
        (b"login: eve from 192.0.2.1", []),
        (b"app 5", None),  # a composite counts it
    ):
        head = b"" if text.startswith(b"app") else b"Nov 14 22:13:20 hq "
        after = decoder.decode(
            encoder.encode(look_ahead(engine, b"1:/x:" + head + text, START, archiving=False)), START
        )
        assert (None if after.beside is None else [rules_of(one) for one in after.beside]) == expected
        assert after.event is not None


def rules_of(found: Any) -> Any:
    return None if found is None else (found.rule.id, found.previous.id if found.previous is not None else None)


def contents(event: Event) -> dict[str, Any]:
    made = {field.name: getattr(event, field.name) for field in fields(event)}
    decoder = made.pop("decoder")
    return made | {"decoder": None if decoder is None else (decoder.file, decoder.line, decoder.name, decoder.id)}


def test_a_swap_under_load_takes_effect_between_two_events(tmp_path: Path) -> None:
    with with_pool(tmp_path, plain(100001), 3) as one:
        for turn, rule in enumerate((100002, 100001, 100003)):
            one.send(app(turn * 4000, turn * 4000 + 3000))
            received(one, turn * 4000 + 100)
            one.thread.swap(compile_sources(plain(rule)), plain(rule))
            one.send(app(turn * 4000 + 3000, turn * 4000 + 4000))
            one.drained()
            assert one.thread.swaps == turn + 1
        wait_until(lambda: decoders_ready(one), what="decoder processes with the new ruleset")
        before = one.thread.counters()["looked_ahead"]
        one.send(app(12000, 13000))
        one.drained()
        assert one.thread.counters()["looked_ahead"] > before
        assert numbers(one) == list(range(13000))
        order = [alert["rule"]["id"] for alert in one.alerts()]
        assert sum(a != b for a, b in pairwise(order)) == 3
        assert order[-1000:] == ["100003"] * 1000
        assert one.thread.counters()["decoder_restarts"] == 0


def test_a_ruleset_without_sources_is_analysed_in_line(tmp_path: Path) -> None:
    with with_pool(tmp_path, plain(100001), 2) as one:
        one.thread.swap(compile_sources(plain(100002)))
        wait_until(lambda: one.thread.swaps, what="the swap")
        one.send(app(0, 1000))
        one.drained()
        assert numbers(one) == list(range(1000))
        assert one.thread.counters()["looked_ahead"] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_hangs_under_load_loses_no_event(tmp_path: Path, number: signal.Signals) -> None:
    with with_pool(tmp_path, plain(100001), 3) as one:
        pool = one.thread.pool
        assert pool is not None
        pool.answer_seconds = 0.5
        end = 0
        for turn in range(3):
            wait_until(lambda: decoders_ready(one), what="decoder processes")
            victims = pool.pids[: 1 + turn % 2]
            one.send(app(end, end + 4000))
            received(one, end + 200)
            for victim in victims:
                os.kill(victim, number)
            one.send(app(end + 4000, end + 6000))
            end += 6000
            one.drained()
        assert numbers(one) == list(range(end))
        assert pool.restarts >= 3
        wait_until(lambda: decoders_ready(one), what="decoder processes again")


def test_processes_ignore_signals_to_the_group(tmp_path: Path) -> None:
    with with_pool(tmp_path, plain(100001), 2) as one:
        assert one.thread.pool is not None
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(one.thread.pool.pids[0], number)
        one.send(app(0, 1000))
        one.drained()
        counters = one.thread.counters()
        assert (counters["engines"], counters["decoders_ready"], counters["decoder_restarts"]) == (2, 1, 0)
        assert counters["looked_ahead"] > 0


def test_a_ruleset_that_processes_cannot_compile_is_analysed_in_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with analysing(tmp_path, compile_sources(plain(100001)), engines=2, sources=texts(APP, "<group>")) as one:
        wait_until(lambda: one.thread.counters()["decoder_restarts"], what="a failure")
        one.send(app(0, 1000))
        one.drained()
        assert numbers(one) == list(range(1000))
        assert "cannot compile the ruleset: " in caplog.text


def test_a_stop_under_load_ends_all_and_the_next_start_continues(tmp_path: Path) -> None:
    done: list[int] = []
    for _ in range(3):
        with with_pool(tmp_path, plain(100001), 3) as one:
            if not done:
                one.send(app(0, 20000))
            received(one, 1000)
            assert one.thread.pool is not None
            pids = one.thread.pool.pids
            one.thread.stop()
            assert one.thread.failure is None
            assert not any(psutil.pid_exists(pid) for pid in pids)
            done = numbers(one)
            assert done == list(range(len(done)))
    with with_pool(tmp_path, plain(100001), 3) as one:
        one.drained()
        assert numbers(one) == list(range(20000))


ORPHANING = """
import sys
from pathlib import Path
from tests.engine.lookahead.test_decoder_pool import app, with_pool, plain
with with_pool(Path(sys.argv[1]), plain(100001), 3) as one:
    print(*one.thread.pool.pids, flush=True)
    number = 0
    while True:
        one.send(app(number, number + 1000))
        number += 1000
        one.drained()
"""


def test_processes_end_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHANING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGSTOP)
        process.kill()
    wait_until(lambda: not any(running(pid) for pid in pids), what="their end")


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_is_never_ready_is_replaced_after_a_pause() -> None:
    clock = ManualClock(START)
    pool = DecoderPool(1, clock, host=b"mgr", archiving=False)
    try:
        pool.load(plain(100001), RulesetSettings())
        os.kill(pool.pids[0], signal.SIGSTOP)
        for failure in range(3):
            clock.advance(READY_SECONDS)
            pool.maintain()
            assert (pool.pids, pool.restarts, pool.submit([b"1:/x:app 1"], START)) == ([], failure + 1, None)
            clock.advance(BACKOFF_SECONDS * 2**failure * 0.75)
            pool.maintain()
            assert pool.pids == []
            clock.advance(BACKOFF_SECONDS * 2**failure * 0.25)
            pool.maintain()
            os.kill(pool.pids[0], signal.SIGSTOP)
        os.kill(pool.pids[0], signal.SIGCONT)
        wait_until(lambda: maintained(pool).ready, what="a decoder process")
        batches = [pool.submit([b"1:/x:app 1"], START) for _ in range(IN_FLIGHT + 1)]
        assert batches[-1] is None
        assert [len(pool.results(number)) for number in batches if number is not None] == [1] * IN_FLIGHT
    finally:
        pool.close()


def maintained(pool: DecoderPool) -> DecoderPool:
    pool.maintain()
    return pool


def test_events_of_the_largest_size_do_not_block(tmp_path: Path) -> None:
    config = "<global><logall_json>yes</logall_json></global>"
    with with_pool(tmp_path, plain(100001), 3, config=config) as one:
        for number in range(200):
            one.send([f"1:/x:app {number} {'y' * 65000}"])
        one.drained()
        assert numbers(one) == list(range(200))
        assert (tmp_path / "logs/archives/archives.json").read_bytes().count(b"\n") == 200
        assert one.thread.counters()["decoder_restarts"] == 0


def test_the_pool_leaves_one_core_to_the_daemon() -> None:
    cores = len(os.sched_getaffinity(0))
    assert pool_size(0) == (0 if cores <= FEW_CORES else min(MAX_PROCESSES, cores - 1))
    assert [pool_size(engines) for engines in (1, 2, 9, 64)] == [0, 1, 8, 63]


def test_moments_differ_between_blocks(tmp_path: Path) -> None:
    """Each batch is of one moment, which rules by the time of day look at."""
    local = START.astimezone()
    night = texts(
        APP,
        '<group name="app,"><rule id="100001" level="3"><decoded_as>app</decoded_as><description>day</description></rule>'
        f'<rule id="100002" level="9"><if_sid>100001</if_sid><time>{local:%H}:00-{local:%H}:59</time><description>night</description></rule></group>',
    )
    found = []
    for engines in (1, 2):
        clock = ManualClock(START - timedelta(minutes=15))
        with with_pool(tmp_path / str(engines), night, engines, clock=clock) as one:
            for turn in range(4):
                one.send(app(turn * 100, turn * 100 + 100))
                one.drained()
                clock.advance(600)
            found.append([(alert["rule"]["id"], alert["id"]) for alert in one.alerts()])
            assert {rule for rule, _ in found[-1]} == {"100001", "100002"}
    assert found[0] == found[1]
