"""The analysis engine: events a second on one core by class of log, compile time, memory."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

import msgspec
import psutil

from bench import engine_live, engine_nodes
from bench.engine_matching import PlainWalk, matching_rate
from bench.generated_logs import logs, mixed
from bench.generated_ruleset import generate
from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.engine.engine import Engine
from secmon.engine.input.predecode import Message
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Origin
from secmon.engine.output.text_records import alert_record
from secmon.engine.ruleset.case_files import find_files, read_file
from secmon.engine.ruleset.compiled import File, Ruleset, RulesetSettings
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.engine.ruleset.sources import Sources, collect_folder, compile_sources

ROOT = Path(__file__).parents[1]
PUBLIC_SIZE = "public-size"
SAMPLE = 4000
"""Logs of the default ruleset's cases."""
LOGS = 1200
"""Generated logs of each class."""
FLOOR_LOGS = 120
"""Logs of a class on which the floor is measured."""
SHARE = 1.0
"""Of the rate of the matching alone, with the ruleset of the public one's size."""
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def measure(bench: Bench) -> list[Figure]:
    """The default ruleset, and a generated one of the public one's size and shape."""
    rounds = 2 if bench.quick else 7
    own, generated = collect_folder(ROOT / "ruleset"), generate()
    classes = logs(generated, LOGS // 4 if bench.quick else LOGS)
    say(f"events through {generated.counts()}")
    public = generated.sources()
    cases = sample(compile_sources(own))
    figures = [
        *_in_process("default", own, {"cases": cases}, rounds),
        *_in_process(PUBLIC_SIZE, public, {**classes, "mixed": mixed(classes)}, rounds),
        *engine_live.measure("default", own, cases, rounds, quick=bench.quick),
        *engine_live.measure(PUBLIC_SIZE, public, mixed(classes), rounds, quick=bench.quick),
        *_compile_times(public, rounds),
        _memory(),
    ]
    return [*figures, *engine_nodes.measure(bench)]


def _in_process(name: str, sources: Sources, classes: Mapping[str, Sequence[Message]], rounds: int) -> Iterable[Figure]:
    ruleset, walk = compile_sources(sources), PlainWalk(sources)
    plain = new_engine(walk.ruleset)
    for kind, messages in classes.items():
        some = messages[:FLOOR_LOGS]
        tests = [test for message in some for test in walk.of(plain, message, NOW)]
        engine, rates, floors = new_engine(ruleset), [], []
        for _ in range(rounds + 1):
            rates.append(rate(engine, messages))
            floors.append(matching_rate(tests, len(some)))
        yield median_figure(
            f"engine, {name} ruleset, {kind}",
            rates[1:],  # the first round fills the memories
            "events/s",
            floor=statistics.median(floors[1:]),
            floor_is="PCRE2 alone",
            aim=Aim(bound=SHARE, least=True) if name == PUBLIC_SIZE else None,
        )


def new_engine(ruleset: Ruleset) -> Engine:
    """An engine with a state of its own."""
    return Engine(ruleset, State.private(Path("/nowhere")), host=b"bench")


def rate(engine: Engine, messages: Sequence[Message]) -> float:
    """Events a second of processor time, alerts rendered as they are written."""
    documents, encode = Documents(Origin("bench")), msgspec.json.encode
    started = time.process_time()
    for message in messages:
        verdict = engine.process(message, NOW)
        if verdict.alert:
            encode(documents.of(verdict, "1.0"))
            alert_record(verdict, "1.0")
    return len(messages) / (time.process_time() - started)


def sample(ruleset: Ruleset) -> list[Message]:
    """Logs of the cases, mixed so that one event in two raises an alert."""
    engine = new_engine(ruleset)
    alerting: list[Message] = []
    quiet: list[Message] = []
    for file in find_files((ROOT / "tests/ruleset",)):
        for case in read_file(file):
            for log in case.logs:
                message = Message("1", b"[003] (web3) any->/var/log/bench", log)
                verdict = engine.process(message, NOW)
                noisy = (
                    verdict.alert and verdict.rule is not None and verdict.rule.level >= RulesetSettings().alert_level
                )
                (alerting if noisy else quiet).append(message)
    pairs = zip(cycle(alerting), cycle(quiet), strict=False)
    return [message for pair in islice(pairs, SAMPLE // 2) for message in pair]


def _compile_times(sources: Sources, rounds: int) -> list[Figure]:
    """As an upload is checked: with what is known of the files before it."""
    full, rule, decoder = [], [], []
    for _ in range(rounds):
        cache = LoadCache()
        full.append(_compile_time(sources, cache))
        sources.rules[-1] = _changed(sources.rules[-1])
        rule.append(_compile_time(sources, cache))
        sources.decoders[0] = _changed(sources.decoders[0])
        decoder.append(_compile_time(sources, cache))
    name = "engine, compile the public-size ruleset"
    return [
        median_figure(name, full, "s"),
        median_figure(f"{name} after one file of rules has changed", rule, "s", aim=Aim(bound=1.0, of="value")),
        median_figure(f"{name} after one file of decoders has changed", decoder, "s", aim=Aim(bound=1.0, of="value")),
    ]


def _compile_time(sources: Sources, cache: LoadCache) -> float:
    started = time.process_time()
    compile_sources(sources, cache=cache)
    return time.process_time() - started


def _changed(file: File) -> File:
    return file[0], file[1] + b"\n"


def _memory() -> Figure:
    """Resident memory of a separate process that holds the public-size ruleset."""
    program = "from bench import engine; print(engine.resident())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    empty, loaded = (float(part) for part in done.stdout.split())
    return Figure(
        name="engine, memory with the public-size ruleset",
        value=loaded,
        unit="MiB",
        floor=empty,
        floor_is="libraries alone",
    )


def resident() -> str:
    """Memory before and after compiling, in MiB; run in a separate process."""
    process = psutil.Process()
    before = process.memory_info().rss / 2**20
    compiled = compile_sources(generate().sources())
    after = process.memory_info().rss / 2**20
    return f"{before} {after}" if compiled.rules.by_id else ""
