"""A load that knows an earlier one gives the same as one that does not."""

import pytest

from secmon.engine.ruleset.compiled import Ruleset, compile_ruleset
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.load_cache import LoadCache
from tests.engine.rules_kit import NODE_DECODER, ROOTS, Bench

OTHER_DECODER = '<decoder name="zz"><prematch>^ZZ</prematch></decoder>'


def rules(number: int, level: int, decoder: str = "node") -> str:
    return (
        f'<group name="g,"><rule id="{number}" level="{level}"><decoded_as>{decoder}</decoded_as>'
        "<description>x</description></rule></group>"
    )


def load(cache: LoadCache, decoders: str, *files: str) -> Ruleset:
    named = [(f"r{at}.xml", text.encode()) for at, text in enumerate((ROOTS, *files))]
    return compile_ruleset([("d.xml", decoders.encode())], {}, named, cache=cache)


def test_files_that_change_and_files_that_do_not() -> None:
    cache = LoadCache()
    first = load(cache, NODE_DECODER, rules(100100, 3), rules(100101, 5))
    second = load(cache, NODE_DECODER, rules(100100, 3), rules(100101, 2))
    assert [Bench(one).node("GET") for one in (first, second)] == [100101, 100100]
    assert first.rules.by_id[100100] is not second.rules.by_id[100100], "rules of two rulesets are never the same ones"


def test_other_decoders_have_other_ids() -> None:
    cache = LoadCache()
    load(cache, NODE_DECODER, rules(100100, 3))
    later = load(cache, OTHER_DECODER + NODE_DECODER, rules(100100, 3))
    assert Bench(later).node("GET") == 100100
    assert Bench(later).rule("ZZ") is None


def test_a_decoder_that_is_gone_is_missed_by_files_that_did_not_change() -> None:
    cache = LoadCache()
    load(cache, OTHER_DECODER + NODE_DECODER, rules(100100, 3, "zz"))
    with pytest.raises(RulesetError, match="'zz' of rule 100100"):
        load(cache, NODE_DECODER, rules(100100, 3, "zz"))
    assert Bench(load(cache, OTHER_DECODER + NODE_DECODER, rules(100100, 3, "zz"))).rule("ZZ") == 100100


def test_decoders_of_two_rulesets_are_never_the_same() -> None:
    cache = LoadCache()
    first, second = (load(cache, OTHER_DECODER * times + NODE_DECODER) for times in (1, 2))
    for one in (first, second):
        assert [len(root.children) for root in one.decoders.roots("node")] == [1]


def test_warnings_are_reported_at_each_load() -> None:
    cache = LoadCache()
    doubtful = rules(100100, 3).replace('level="3"', 'level="3" noalert="2"')
    messages = [[one.number for one in load(cache, NODE_DECODER, doubtful).messages] for _ in range(2)]
    assert messages == [[7600], [7600]]
