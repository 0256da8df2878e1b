"""The analysis engine: events a second on one core by size of the ruleset, compile time, memory."""

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

import msgspec
import psutil

from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.engine.analysis import Engine
from secmon.engine.casefiles import find_files, read_file
from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.document import Documents, Origin
from secmon.engine.files import collect_folder
from secmon.engine.predecode import Message
from secmon.engine.rules.loader import DraftCache
from secmon.engine.ruleset import File, Ruleset, Settings, compile_ruleset
from secmon.engine.state import State
from secmon.engine.text import alert_record

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
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def measure(bench: Bench) -> list[Figure]:
    """Our ruleset as it is, and so many copies of it under other names that it is as large as the public one."""
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
    return [*figures, *_compile_times(_copied_decoders(decoders, copies), lists, many, rounds), _memory(copies)]


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
                noisy = verdict.alert and verdict.rule is not None and verdict.rule.level >= Settings().alert_level
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
    """Resident memory of a process of its own that holds the large ruleset."""
    program = f"from bench import engine; print(engine.resident({copies}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    empty, loaded = (float(part) for part in done.stdout.split())
    return Figure(
        name="engine, memory with the large ruleset", value=loaded, unit="MiB", floor=empty, floor_is="libraries alone"
    )


def resident(copies: int) -> str:
    """Memory before and after compiling, in MiB; run in a process of its own."""
    process = psutil.Process()
    before = process.memory_info().rss / 2**20
    decoders, rules, lists = _sources()
    compiled = compile_ruleset(_copied_decoders(decoders, copies), lists, _copied(rules, copies))
    after = process.memory_info().rss / 2**20
    return f"{before} {after}" if compiled.rules.by_id else ""
