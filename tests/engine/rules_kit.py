"""An engine on rules of a text, a clock that tests move, and what it says of a log."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from secmon.engine.engine import Engine, Verdict
from secmon.engine.input.predecode import Message
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Trace
from secmon.engine.ruleset.compiled import Ruleset, RulesetSettings, compile_ruleset
from secmon.engine.ruleset.diagnostics import RulesetError

START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
LOCATION = "/var/log/demo.log"
ROOTS = """<group name="base,">
<rule id="1" level="0" noalert="1"><category>syslog</category><description>syslog</description></rule>
<rule id="2" level="0" noalert="1"><category>firewall</category><description>firewall</description></rule>
<rule id="4" level="0" noalert="1"><category>web-log</category><description>web</description></rule>
<rule id="7" level="0" noalert="1"><category>ossec</category><description>ossec</description></rule>
</group>"""
NODE_DECODER = r"""<decoder name="node"><program_name>^noded$</program_name></decoder>
<decoder name="node-a"><parent>node</parent><regex>^(\w+) (\S+) u=(\w+) from (\S+) code (\d+)</regex>
<order>action, url, user, srcip, id</order></decoder>"""


def ruleset(
    decoders: str, rules: str, *, lists: dict[str, bytes] | None = None, settings: RulesetSettings | None = None
) -> Ruleset:
    return compile_ruleset(
        [("etc/decoders/d.xml", decoders.encode())],
        lists or {},
        [("ruleset/rules/0000-base.xml", ROOTS.encode()), ("etc/rules/r.xml", rules.encode())],
        settings,
    )


def refused(decoders: str, rules: str) -> int:
    """The number of the error that keeps these from loading; 0 when nothing does."""
    try:
        ruleset(decoders, rules)
    except RulesetError as error:
        return error.message.number
    return 0


class Bench:
    """One engine; ``at`` is the seconds since its start."""

    def __init__(
        self, compiled: Ruleset, *, memory: int = 8192, session: bool = False, folder: Path = Path("/nowhere")
    ) -> None:
        self.state = State.private(folder)
        self.state.memory_size = memory
        self.engine = Engine(compiled, self.state, host=b"mgr", session=session)

    def run(self, log: str, at: float = 0, location: str = LOCATION, trace: Trace | None = None) -> Verdict:
        return self.engine.process(Message("1", location.encode(), log.encode()), START + timedelta(seconds=at), trace)

    def rule(self, log: str, at: float = 0, location: str = LOCATION) -> int | None:
        rule = self.run(log, at, location).rule
        return rule.id if rule else None

    def node(
        self, action: str, url: str = "/x", user: str = "u", ip: str = "192.0.2.1", code: int = 200, at: float = 0
    ) -> int | None:
        """The rule of a log of the decoder of E-22 to E-35."""
        return self.rule(node_log(action, url, user, ip, code), at)


def node_log(action: str, url: str = "/x", user: str = "u", ip: str = "192.0.2.1", code: int = 200) -> str:
    return f"Nov 14 22:13:20 hq noded: {action} {url} u={user} from {ip} code {code}"


class Lines:
    """A trace as ids: ``?`` tried, ``*`` matched, ``>`` children."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trying(self, rule: Rule) -> None:
        self.lines.append(f"?{rule.id}")

    def matched(self, rule: Rule) -> None:
        self.lines.append(f"*{rule.id}")

    def descending(self, rule: Rule) -> None:
        self.lines.append(">")


def nodes(*rules: str) -> Ruleset:
    """Rules below 100300, which matches each log of the node decoder."""
    base = '<rule id="100300" level="0"><decoded_as>node</decoded_as><description>base</description></rule>'
    return ruleset(NODE_DECODER, f'<group name="node,">{base}{"".join(rules)}</group>')


def below(number: int, level: int, body: str, attributes: str = "", parent: int = 100300) -> str:
    return f'<rule id="{number}" level="{level}" {attributes}><if_sid>{parent}</if_sid>{body}<description>{number}</description></rule>'
