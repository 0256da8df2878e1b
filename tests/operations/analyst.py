"""A node with rules, decoders and lists of its own, and with an analysis engine."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from secmon.agents.sources.presence import Presence
from secmon.cluster.analysis_client import EngineClient
from secmon.cluster.node import Changed, Finding, Node
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.daemons.ruleset_validation import NodeRulesetValidation
from secmon.engine.build import AnalysisEnvironment
from secmon.engine.catalogue import RulesetCatalogue
from secmon.engine.ruleset.sources import NO_CHANGE
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.engine.service import AnalysisService
from tests.operations.office import Office
from tests.operations.world import World

SHOP_RULES = b"""\
<var name="WORDS">refund|chargeback</var>
<!-- the shop's own -->
<group name="shop,">
  <rule id="100730" level="3">
    <decoded_as>shop</decoded_as>
    <description>A void by $(srcuser)</description>
  </rule>
  <rule id="100731" level="9" frequency="6" timeframe="120">
    <if_matched_sid>100730</if_matched_sid>
    <same_source_ip />
    <field name="cart.state" type="pcre2">^void$</field>
    <match negate="yes">$WORDS</match>
    <list field="srcuser" lookup="not_match_key">etc/lists/vip</list>
    <info type="link">https://kb.example/7</info>
    <options>no_full_log</options>
    <options>alert_by_email</options>
    <mitre><id>T1110</id></mitre>
    <group>fraud,pci_dss_10.2.4,gdpr_IV_35.7.d</group>
    <description>Repeated voids by $(srcuser)</description>
  </rule>
</group>
"""
SHOP_DECODERS = rb"""<decoder name="shop">
  <program_name>^shop</program_name>
</decoder>
<decoder name="shop-void">
  <parent>shop</parent>
  <prematch offset="after_parent">^VOID </prematch>
  <regex offset="after_prematch">^(\S+) by (\S+)</regex>
  <order>cart.id, srcuser</order>
</decoder>
"""
LOGIN_RULE = b"""<group name="own,"><rule id="100900" level="5"><match>grocery</match>
<description>Groceries</description></rule></group>"""


_LEFT_OUT_FROM = "02"
"""The first files by name that are not needed here."""


class DirectValidation:
    """Compiles in this process: for tests of what a verdict leads to."""

    def __init__(self, paths: Paths) -> None:
        self._validator = RulesetValidator(paths)

    async def findings(self, changed: Changed = NO_CHANGE) -> Sequence[Finding]:
        return await asyncio.to_thread(self._validator.findings, changed)

    async def blocking_error(self, changed: Changed) -> Finding | None:
        return await asyncio.to_thread(self._validator.blocking_error, changed)


def stock(node: Node) -> None:
    """Give the node its own files, and the operations a way to them.

    Of the ruleset that is installed only the part on this manager and Unix remains: the whole takes half a second to
    compile, each time.
    """
    for file in (node.paths.root / "ruleset/rules").iterdir():
        if file.name >= _LEFT_OUT_FROM:
            file.unlink()
    etc = node.paths.etc
    (etc / "rules/shop_rules.xml").write_bytes(SHOP_RULES)
    (etc / "decoders/shop_decoders.xml").write_bytes(SHOP_DECODERS)
    (etc / "lists/vip").write_bytes(b"ana:gold\nbob:\n")
    node.services.ruleset = RulesetCatalogue(node.paths)
    node.services.validation = DirectValidation(node.paths)


def stocked(world: World) -> Office:
    """The office of a world whose nodes all have the files."""
    for running in world.nodes.values():
        stock(running.node)
    return Office(world)


@asynccontextmanager
async def analysing(node: Node) -> AsyncIterator[AnalysisService]:
    """The engine of the node, as long as this lasts."""
    given = AnalysisEnvironment(
        paths=node.paths,
        config=node.main_config,
        options=node.options,
        clock=SystemClock(),
        counters=Counters(),
        host="mgr.example",
        labels=lambda agent: None,
    )

    async def active() -> set[int]:
        return set()

    async def present() -> Presence:
        return Presence(frozenset(), frozenset())

    service = AnalysisService(given, active, present, Background())
    await service.start()
    engine = node.services.analysis = EngineClient(node.paths.analysis_socket, node.paths.logtest_socket)
    node.services.validation = NodeRulesetValidation(engine, node.paths)
    try:
        yield service
    finally:
        await service.stop()
