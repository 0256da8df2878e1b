"""The generated ruleset of the benchmark: its shape, and every result against the search without any index."""

from dataclasses import replace
from pathlib import Path

from bench.generated_logs import SHARES, logs
from bench.generated_ruleset import generate
from secmon.engine.engine import Engine
from secmon.engine.memory.state import State
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import compile_sources
from tests.engine.decoders import plain_walk
from tests.engine.rules_kit import START, Lines

EACH = 40
"""Logs of each class."""


class _PlainTree:
    """Decodes by the model."""

    def __init__(self, ruleset: Ruleset) -> None:
        self.decode = lambda event: plain_walk.decode(ruleset.decoders, event)


def test_its_counts_are_those_of_the_public_ruleset() -> None:
    counts = generate().counts()
    assert counts == generate().counts()
    public = {"decoders": 1567, "osregex": 1848, "pcre2": 171, "rules": 4378}
    assert all(abs(counts[name] - number) < number / 20 for name, number in public.items())


def test_results_are_those_of_the_search_without_an_index() -> None:
    generated = generate()
    ruleset = compile_sources(generated.sources())
    assert not ruleset.messages
    plain_ruleset = replace(ruleset, decoder_tree=_PlainTree(ruleset))  # type: ignore[arg-type]
    indexed, plain = (Engine(one, State.private(Path("/nowhere")), host=b"mgr") for one in (ruleset, plain_ruleset))
    classes = logs(generated, EACH)
    assert classes.keys() == SHARES.keys()
    for messages in classes.values():
        for message in messages:
            one, other = indexed.process(message, START), plain.process(message, START, Lines())
            assert (one.rule, one.alert, one.fired) == (other.rule, other.alert, other.fired)
            assert one.event.decoder is other.event.decoder
            assert (one.event.static, one.event.dynamic) == (other.event.static, other.event.dynamic)
