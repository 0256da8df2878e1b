"""Sigma rules: how many of 3,000 realistic ones are translated, and what they cost the engine."""

import statistics
import time
from collections.abc import Sequence

from bench import engine
from bench.generated_sigma import events, rules
from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.engine.input.predecode import Message
from secmon.engine.ruleset.sources import Sources, collect_folder, compile_sources
from secmon.importers.sigma import RULES
from secmon.importers.sigma.ids import IdMap
from secmon.importers.sigma.rule_xml import file_of
from secmon.importers.sigma.source import Document
from secmon.importers.sigma.translate import Translation, translate

WINDOWS = 0.3
"""Share of Windows events in the mixed lines; the others are those of the default ruleset's cases."""
TRANSLATED, SPEED = 0.9, 0.8
EVENTS = 1500


def measure(bench: Bench) -> list[Figure]:
    """Translation, and the default ruleset with and without these rules."""
    documents = [Document(f"{at}.yml", one) for at, one in enumerate(rules())]
    started = time.process_time()
    made = translate(documents, IdMap())
    took = time.process_time() - started
    imported = sum(line.result == "imported" for line in made.lines)
    say(f"{imported} of {len(documents)} Sigma rules translated")
    own = collect_folder(engine.ROOT / "ruleset")
    both = with_rules(own, made)
    started = time.process_time()
    compile_sources(both)
    compiled = time.process_time() - started
    windows = events(EVENTS // 3 if bench.quick else EVENTS)
    others = engine.sample(compile_sources(own))
    mixed = [*windows, *others[: round(len(windows) * (1 - WINDOWS) / WINDOWS)]]
    rounds = 3 if bench.quick else 7
    return [
        Figure(
            name="sigma, translated rules of 3,000",
            value=imported,
            unit="rules",
            floor=len(documents),
            floor_is="all",
            aim=Aim(bound=TRANSLATED, least=True),
        ),
        Figure(name="sigma, translate 3,000 rules", value=took, unit="s"),
        Figure(name="sigma, compile the default ruleset with them", value=compiled, unit="s"),
        _with_and_without("mixed lines", own, both, mixed, rounds, Aim(bound=SPEED, least=True)),
        _with_and_without("lines of other sources", own, both, others, rounds, None),
        _with_and_without("events of Windows", own, both, windows, rounds, None),
    ]


def with_rules(sources: Sources, made: Translation) -> Sources:
    """The ruleset with translated rules."""
    return Sources(sources.decoders, sources.lists, [*sources.rules, (RULES, file_of(made.rules, "bench"))])


def _with_and_without(
    name: str, own: Sources, both: Sources, messages: Sequence[Message], rounds: int, aim: Aim | None
) -> Figure:
    without, with_them = (engine.new_engine(compile_sources(sources)) for sources in (own, both))
    rates: list[float] = []
    floors: list[float] = []
    for _ in range(rounds + 1):
        floors.append(engine.rate(without, messages))
        rates.append(engine.rate(with_them, messages))
    return median_figure(
        f"sigma, engine with 3,000 rules, {name}", rates[1:], "events/s", floor=statistics.median(floors[1:]),
        floor_is="without them", aim=aim,
    )  # fmt: skip
