"""A load that knows an earlier one gives the same as one that does not."""

from secmon.engine.rules.rule_loader import DraftCache
from secmon.engine.ruleset.compiled import Ruleset, compile_ruleset
from tests.engine.rules_kit import NODE_DECODER, ROOTS, Bench

OTHER_DECODER = '<decoder name="zz"><prematch>^ZZ</prematch></decoder>'


def rules(number: int, level: int, decoder: str = "node") -> str:
    return (
        f'<group name="g,"><rule id="{number}" level="{level}"><decoded_as>{decoder}</decoded_as>'
        "<description>x</description></rule></group>"
    )


def load(cache: DraftCache, decoders: str, *files: str) -> Ruleset:
    named = [(f"r{at}.xml", text.encode()) for at, text in enumerate((ROOTS, *files))]
    return compile_ruleset([("d.xml", decoders.encode())], {}, named, cache=cache)


def test_files_that_change_and_files_that_do_not() -> None:
    cache = DraftCache()
    first = load(cache, NODE_DECODER, rules(100100, 3), rules(100101, 5))
    second = load(cache, NODE_DECODER, rules(100100, 3), rules(100101, 2))
    assert [Bench(one).node("GET") for one in (first, second)] == [100101, 100100]
    assert first.rules.by_id[100100] is not second.rules.by_id[100100], "rules of two rulesets are never the same ones"


def test_other_decoders_have_other_ids() -> None:
    cache = DraftCache()
    load(cache, NODE_DECODER, rules(100100, 3))
    later = load(cache, OTHER_DECODER + NODE_DECODER, rules(100100, 3))
    assert Bench(later).node("GET") == 100100
    assert Bench(later).rule("ZZ") is None


def test_warnings_are_reported_at_each_load() -> None:
    cache = DraftCache()
    doubtful = rules(100100, 3).replace('level="3"', 'level="3" noalert="2"')
    messages = [[one.number for one in load(cache, NODE_DECODER, doubtful).messages] for _ in range(2)]
    assert messages == [[7600], [7600]]
