"""The analysis engine: events a second on one core by size of the ruleset, compile time, memory."""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

import msgspec
import psutil

from bench import engine_processes
from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.engine import Engine
from secmon.engine.input.predecode import Message
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Origin
from secmon.engine.output.text_records import alert_record
from secmon.engine.rules.rule_loader import DraftCache
from secmon.engine.ruleset.case_files import find_files, read_file
from secmon.engine.ruleset.compiled import File, Ruleset, RulesetSettings, compile_ruleset
from secmon.engine.ruleset.sources import Sources, collect_folder
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
RULES = 6800
"""Rules of the large ruleset."""
PUBLIC_RATE = 18_000
"""Events a second of the public engine in C on one core of such a machine, with as many rules."""
SHARE = 0.25
FIRST_OWN = 10
"""Smaller ids are the roots, of which there is one set only."""
FIRST_COPY = 200_000
"""Ids of the copies' rules are above."""
SAMPLE = 4000
WORKERS = 2
FIRST_FREE = 190_000
LOG = "Nov 14 22:13:20 web1 sshd[811]: Failed password for root from 192.0.2.7 port 5022 ssh2"
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def measure(bench: Bench) -> list[Figure]:
    """The default ruleset, and one with copies of it under other names that is as large as the public one."""
    rounds = 2 if bench.quick else 7
    decoders, rules, lists = _sources()
    own = compile_ruleset(decoders, lists, rules)
    copies = max(1, round(RULES / len(own.rules.by_id)))
    many = _copied(rules, copies)
    large = compile_ruleset(_copied_decoders(decoders, copies), lists, many)
    say(f"events through {len(own.rules.by_id)} and {len(large.rules.by_id)} rules")
    logs = _sample(own)
    figures = []
    for name, ruleset, prepared in (("own", own, logs), ("large", large, list(_renamed(logs, copies)))):
        rates = _rates(ruleset, prepared, rounds)
        figures.append(
            median_figure(
                f"engine, {len(ruleset.rules.by_id)} rules ({name})",
                rates,
                "events/s",
                floor=PUBLIC_RATE,
                floor_is="public C engine",
                aim=Aim(bound=SHARE, least=True),
            )
        )
    shared = [
        *engine_processes.measure("own", Sources(decoders, lists, rules), logs, rounds),
        *engine_processes.measure(
            "large",
            Sources(_copied_decoders(decoders, copies), lists, many),
            list(_renamed(logs, copies)),
            rounds,
        ),
    ]
    compiled = _compile_times(_copied_decoders(decoders, copies), lists, many, rounds)
    return [*figures, *shared, *compiled, _memory(copies), *_live(bench)]


def _sources() -> tuple[list[File], list[File], dict[str, bytes]]:
    sources = collect_folder(ROOT / "ruleset")
    return list(sources.decoders), list(sources.rules), dict(sources.lists)


# -- a larger ruleset: the same rules again, for programs with other names


def _copied(rules: Iterable[File], copies: int) -> list[File]:
    rules = list(rules)
    own = [int(one) for _, data in rules for one in re.findall(rb'(?<=<rule id=")\d+', data)]
    made = list(rules)
    for number in range(1, copies):
        ids = {one: FIRST_COPY + number * len(own) + at for at, one in enumerate(own) if one >= FIRST_OWN}
        for path, data in rules:
            if b'<rule id="1"' not in data:
                made.append((path.replace(".xml", f"_{number}.xml"), _moved(data, number, ids)))
    return made


_INTERNAL = b"|".join(name.encode() for name in INTERNAL)


def _moved(data: bytes, number: int, ids: dict[int, int]) -> bytes:
    """Rules with other ids, for decoders and groups with other names."""

    def other_ids(found: re.Match[bytes]) -> bytes:
        return re.sub(rb"\d+", lambda one: str(ids.get(int(one[0]), int(one[0]))).encode(), found[0])

    data = re.sub(rb'(?<=<rule id=")\d+|(?<=<if_sid>)[^<]+|(?<=<if_matched_sid>)[^<]+', other_ids, data)
    groups = re.compile(rb'((?<=<group>)|(?<=<group name=")|(?<=<if_group>)|(?<=<if_matched_group>))[^<"]+')
    data = groups.sub(lambda found: re.sub(rb"(\w+)", rb"\1-%d" % number, found[0]), data)
    return re.sub(rb"(?<=<decoded_as>)(?!%b)([^<]+)" % _INTERNAL, rb"\1-%d" % number, data)


def _copied_decoders(decoders: Iterable[File], copies: int) -> list[File]:
    made = list(decoders)
    for number in range(1, copies):
        made += [(path.replace(".xml", f"_{number}.xml"), _other_programs(data, number)) for path, data in decoders]
    return made


_PROGRAM_NAME = re.compile(rb"(<program_name[^>]*>)([^<]*)")


def _other_programs(data: bytes, number: int) -> bytes:
    named = re.sub(rb'(?<=<decoder name=")([^"]+)', rb"\1-%d" % number, data)
    named = re.sub(rb"(?<=<parent>)([^<]+)", rb"\1-%d" % number, named)
    return _PROGRAM_NAME.sub(lambda found: found[1] + _suffixed(found[2], number), named)


def _suffixed(pattern: bytes, number: int) -> bytes:
    """``pattern`` for a program whose name has a number in front."""
    return pattern.replace(b"^", b"^n%d" % number) if b"^" in pattern else b"n%d" % number + pattern


_PROGRAM = re.compile(rb"^(\w{3} [ \d]\d [\d:]{8} \S+ )(\S+?[\[:])")


def _renamed(logs: list[bytes], copies: int) -> Iterator[bytes]:
    """Logs of the programs of every copy, one after the other."""
    for log, number in zip(logs, cycle(range(copies)), strict=False):
        yield _PROGRAM.sub(rb"\1n%d\2" % number, log) if number else log


# -- measuring


def _sample(ruleset: Ruleset) -> list[bytes]:
    """Logs of the cases, mixed so that one event in two raises an alert."""
    engine = Engine(ruleset, State.private(Path("/nowhere")), host=b"bench")
    alerting: list[bytes] = []
    quiet: list[bytes] = []
    for file in find_files((ROOT / "tests/ruleset",)):
        for case in read_file(file):
            for log in case.logs:
                verdict = engine.process(Message("1", b"/var/log/bench", log), NOW)
                noisy = (
                    verdict.alert and verdict.rule is not None and verdict.rule.level >= RulesetSettings().alert_level
                )
                (alerting if noisy else quiet).append(log)
    pairs = zip(cycle(alerting), cycle(quiet), strict=False)
    return [log for pair in islice(pairs, SAMPLE // 2) for log in pair]


def _rates(ruleset: Ruleset, logs: list[bytes], rounds: int) -> list[float]:
    """Events a second of processor time, alerts rendered as they are written."""
    engine = Engine(ruleset, State.private(Path("/nowhere")), host=b"bench")
    documents, encode = Documents(Origin("bench")), msgspec.json.encode
    rates = []
    for _ in range(rounds + 1):
        started = time.process_time()
        for log in logs:
            verdict = engine.process(Message("1", b"/var/log/bench", log), NOW)
            if verdict.alert:
                encode(documents.of(verdict, "1.0"))
                alert_record(verdict, "1.0")
        rates.append(len(logs) / (time.process_time() - started))
    return rates[1:]  # the first round fills the memories


def _compile_times(decoders: list[File], lists: dict[str, bytes], rules: list[File], rounds: int) -> list[Figure]:
    full, again = [], []
    for _ in range(rounds):
        cache = DraftCache()
        started = time.process_time()
        compile_ruleset(decoders, lists, rules, cache=cache)
        full.append(time.process_time() - started)
        changed = [*rules[:-1], (rules[-1][0], rules[-1][1] + b"\n")]
        started = time.process_time()
        compile_ruleset(decoders, lists, changed, cache=cache)
        again.append(time.process_time() - started)
    return [
        median_figure("engine, compile the large ruleset", full, "s"),
        median_figure("engine, compile it after one file has changed", again, "s", aim=Aim(bound=1.0, of="value")),
    ]


def _memory(copies: int) -> Figure:
    """Resident memory of a separate process that holds the large ruleset."""
    program = f"from bench import engine; print(engine.resident({copies}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    empty, loaded = (float(part) for part in done.stdout.split())
    return Figure(
        name="engine, memory with the large ruleset", value=loaded, unit="MiB", floor=empty, floor_is="libraries alone"
    )


def resident(copies: int) -> str:
    """Memory before and after compiling, in MiB; run in a separate process."""
    process = psutil.Process()
    before = process.memory_info().rss / 2**20
    decoders, rules, lists = _sources()
    compiled = compile_ruleset(_copied_decoders(decoders, copies), lists, _copied(rules, copies))
    after = process.memory_info().rss / 2**20
    return f"{before} {after}" if compiled.rules.by_id else ""


# -- on real nodes


def _live(bench: Bench) -> list[Figure]:
    """A round trip of logtest, and the time from an uploaded file to the rule in force on every node."""
    cluster = bench.cluster(WORKERS)
    headers = token(cluster, cluster.master)
    say("round trips of logtest, replacements of the ruleset on three nodes")
    event = {"event": LOG, "log_format": "syslog", "location": "/var/log/auth.log"}
    with Client(cluster.master.api_port) as client:
        first = client.ask(request("PUT", "/logtest", headers, msgspec.json.encode(event)))
        session = msgspec.json.decode(first.body)["data"]["token"]
        again = request("PUT", "/logtest", headers, msgspec.json.encode(event | {"token": session}))
        trips = [client.timed(again) for _ in range(20 if bench.quick else 300)]
        small = [client.timed(request("GET", "/", headers)) for _ in range(len(trips))]
        swaps = [_swap(cluster, client, headers, number) for number in range(3 if bench.quick else 15)]
    return [
        median_figure("logtest, round trip", trips, "ms", floor=statistics.median(small), floor_is="GET /"),
        median_figure("rule uploaded until in force on 3 nodes", swaps, "s", aim=Aim(bound=1.0, of="value")),
    ]


def _swap(cluster: RealCluster, client: Client, headers: dict[str, str], number: int) -> float:
    """Seconds from the request of the upload until every node has swapped."""
    before = {node.name: _in_force(node) for node in cluster.nodes}
    rule = (
        f'<rule id="{FIRST_FREE + number}" level="3"><match>bench {number}</match><description>x</description></rule>'
    )
    body = f'<group name="bench,">{rule}</group>'.encode()
    kind = {**headers, "Content-Type": "application/octet-stream"}
    started = time.perf_counter()
    client.timed(request("PUT", "/rules/files/bench_rules.xml?overwrite=true", kind, body))
    wait_until(
        lambda: all(_in_force(node) != before[node.name] for node in cluster.nodes),
        seconds=60,
        what="the swap on all nodes",
    )
    return time.perf_counter() - started


def _in_force(node: RealNode) -> object:
    return msgspec.json.decode((node.paths.run / "ruleset-status.json").read_bytes())["digest"]
