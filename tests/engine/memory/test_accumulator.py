"""Fields that events of one id lend each other (ruleset.md 8.4)."""

from secmon.engine.memory.accumulator import LIFETIME, Accumulator
from tests.engine.rules_kit import Bench, ruleset

DECODER = r"""<decoder name="tx"><prematch>^tx </prematch><accumulate/></decoder>
<decoder name="tx-1"><parent>tx</parent><regex>id=(\d+)</regex><order>id</order></decoder>
<decoder name="tx-1"><parent>tx</parent><regex>user=(\w+)</regex><order>user</order></decoder>
<decoder name="tx-1"><parent>tx</parent><regex>ip=(\S+)</regex><order>srcip</order></decoder>"""
RULES = """<group name="tx,"><rule id="100600" level="3"><decoded_as>tx</decoded_as><user>ana</user><srcip>192.0.2.4</srcip>
<description>both</description></rule></group>"""


def test_fields_come_together() -> None:
    bench = Bench(ruleset(DECODER, RULES))
    assert bench.rule("tx id=7 user=ana", at=0) is None
    assert bench.rule("tx id=7 ip=192.0.2.4", at=60) == 100600
    assert bench.rule("tx id=8 ip=192.0.2.4", at=61) is None


def test_entries_end() -> None:
    bench = Bench(ruleset(DECODER, RULES))
    bench.rule("tx id=7 user=ana", at=0)
    assert bench.rule("tx id=7 ip=192.0.2.4", at=LIFETIME + 1) is None


def test_old_entries_are_purged() -> None:
    bench = Bench(ruleset(DECODER, RULES))
    for number in range(399):
        bench.rule(f"tx id={number} user=ana", at=0 if number < 199 else 1000)
    bench.rule("tx id=500 user=ana", at=1000)
    assert isinstance(bench.state.accumulator, Accumulator)
    assert len(bench.state.accumulator) == 201
