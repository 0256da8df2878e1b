"""A ruleset of made-up programs, as large as the public one and of the same shape, and logs for it.

The counts of decoders, rules and patterns are those of the public ruleset; all texts are random words. The same calls
return the same ruleset.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from secmon.engine.ruleset.sources import Sources

ROOTS = Path(__file__).parents[1] / "ruleset/rules/0000-roots_rules.xml"
FIRST_FILE = 1000
"""Number of the first file: the roots of rules are loaded before."""
PROGRAMS = 60
"""Programs with a decoder by name, and programs whose logs a prematch recognises."""
CHILDREN = 11
"""Decoders below the root of one program, the last ones a chain."""
CHAIN = 6
PCRE2_SHARE = 0.27
"""Of the patterns that extract a user and an address."""
FIREWALLS, FIREWALL_CHAIN = 3, 37
PROGRAM_RULES = 2175
"""Rules of programs; as many are below a few parents."""
COMPOSITE_SHARE = 0.06
"""Composites among the rules of programs: 3 % of all."""
OPERATIONS, VENDORS = 330, 2
LOGONS, PROCESSES, PROCESSES_PCRE2, REQUESTS, WORDS = 420, 360, 150, 290, 300
_SYLLABLES = ("ba", "ker", "do", "lun", "mi", "tas", "ro", "vex", "pa", "sin", "go", "fal", "ne", "qui", "zor", "hel")
_VALUE = r"(\S+)"


@dataclass(frozen=True)
class Program:
    """A program and the words of its logs. ``plain``: it logs without a syslog header, in one of several forms."""

    name: str
    verbs: tuple[str, ...]
    keys: tuple[str, ...]
    events: tuple[str, ...]
    plain: str = ""


@dataclass
class GeneratedRuleset:
    """Decoders and rules as XML, and the words from which logs for them are made."""

    programs: list[Program] = field(default_factory=list)
    plain_programs: list[Program] = field(default_factory=list)
    operations: dict[str, list[str]] = field(default_factory=dict)
    logons: list[int] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    firewalls: list[tuple[str, ...]] = field(default_factory=list)
    decoders: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    def sources(self) -> Sources:
        """The files, some tens of them, as an installation has them."""
        return Sources(
            decoders=_files("decoders", self.decoders, 16, "{}"),
            rules=[
                ("ruleset/rules/0000-roots_rules.xml", ROOTS.read_bytes()),
                *_files("rules", self.rules, 40, '<group name="generated,">{}</group>'),
            ],
        )

    def counts(self) -> Counter[str]:
        """Decoders, their patterns by language, rules, and composites among them."""
        pcre2 = sum(text.count('type="pcre2"') for text in self.decoders)
        patterns = sum(text.count("</prematch>") + text.count("</regex>") for text in self.decoders)
        return Counter(
            decoders=len(self.decoders),
            osregex=patterns - pcre2,
            pcre2=pcre2,
            rules=len(self.rules),
            composites=sum("<if_matched" in text for text in self.rules),
        )


def generate(seed: int = 1) -> GeneratedRuleset:
    """The ruleset of ``seed``."""
    return _Generator(random.Random(seed)).generate()


def _files(kind: str, texts: list[str], size: int, frame: str) -> list[tuple[str, bytes]]:
    step = -(-len(texts) // size)
    return [
        (
            f"ruleset/{kind}/{FIRST_FILE + at:04d}-generated_{kind}.xml",
            frame.format("\n".join(texts[at : at + step])).encode(),
        )
        for at in range(0, len(texts), step)
    ]


class _Generator:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._made = GeneratedRuleset()
        self._words: set[str] = set()

    def generate(self) -> GeneratedRuleset:
        made = self._made
        made.programs = [self._program() for _ in range(PROGRAMS)]
        made.plain_programs = [self._program(_FORMS[at % len(_FORMS)]) for at in range(PROGRAMS)]
        for program in (*made.programs, *made.plain_programs):
            self._program_decoders(program)
        for _ in range(FIREWALLS):
            self._firewall(self._word())
        made.decoders += _WEB_DECODERS + _JSON_DECODERS
        self._program_rules()
        self._request_rules()
        self._operation_rules()
        self._windows_rules()
        self._word_rules()
        return made

    def _word(self) -> str:
        while True:
            word = "".join(self._chance.choices(_SYLLABLES, k=self._chance.choice((2, 3, 3, 4))))
            if word not in self._words:
                self._words.add(word)
                return word

    def _list(self, size: int) -> tuple[str, ...]:
        return tuple(self._word() for _ in range(size))

    def _program(self, plain: str = "") -> Program:
        return Program(self._word(), self._list(CHILDREN - CHAIN), self._list(CHAIN), self._list(16), plain)

    # -- decoders

    def _program_decoders(self, program: Program) -> None:
        name, choice = program.name, self._chance.random()
        if program.plain:
            body = f"<prematch>{_PREMATCHES[program.plain].replace('{}', name)}</prematch>"
        elif choice < 0.15:
            body = f'<program_name type="pcre2">^{name}\\d?$</program_name>'
        elif choice < 0.4:
            body = f'<program_name type="osregex">^{name}$|^{name}-\\w+$</program_name>'
        else:
            body = f"<program_name>^{name}</program_name>"
        self._decoder(name, body)
        for verb in program.verbs:
            body = f'<prematch offset="after_parent">^{verb} \\w+ for </prematch>'
            if program.plain and self._chance.random() < 0.5:
                body = f"<prematch>{verb} \\w+ for </prematch>"
            kind = ' type="pcre2"' if self._chance.random() < PCRE2_SHARE else ""
            pattern = f'<regex{kind} offset="after_prematch">^{_VALUE} from {_VALUE} port (\\d+)</regex>'
            self._decoder(f"{name}-{verb}", body + pattern + "<order>srcuser, srcip, srcport</order>", name)
        for key in program.keys:
            self._decoder(f"{name}-fields", f"<regex>{key}={_VALUE}</regex><order>{name}.{key}</order>", name)

    def _firewall(self, name: str) -> None:
        keys = self._list(FIREWALL_CHAIN)
        self._made.firewalls.append(keys)
        self._decoder(name, f"<prematch>^date=\\S+ time=\\.*{keys[0]}=</prematch>")
        for key in keys:
            pattern = f'<regex offset="after_parent">\\.*{key}="(\\.*)"|\\.*{key}={_VALUE}</regex>'
            self._decoder(f"{name}-fields", f"{pattern}<order>{key}</order>", name)

    def _decoder(self, name: str, body: str, parent: str = "") -> None:
        above = f"<parent>{parent}</parent>" if parent else ""
        self._made.decoders.append(f'<decoder name="{name}">{above}{body}</decoder>')

    # -- rules

    def _rule(self, level: int, body: str, attributes: str = "") -> int:
        number = 1000 + len(self._made.rules)
        self._made.rules.append(
            f'<rule id="{number}" level="{level}"{attributes}>{body}<description>{self._chance.choice(_TEXTS)}'
            f"</description></rule>"
        )
        return number

    def _program_rules(self) -> None:
        programs = [*self._made.programs, *self._made.plain_programs]
        each = PROGRAM_RULES // len(programs)
        for program in programs:
            parent = self._rule(0, f"<decoded_as>{program.name}</decoded_as>")
            under = f"<if_sid>{parent}</if_sid>"
            for at in range(each - 1):
                event = program.events[at % len(program.events)]
                if at and self._chance.random() < COMPOSITE_SHARE:
                    body = f"<if_matched_sid>{parent + 1}</if_matched_sid><same_source_ip />"
                    self._rule(10, body, ' frequency="8" timeframe="120"')
                elif at % 3 == 2:
                    pattern = f"{event} \\w+ for|^{program.verbs[at % len(program.verbs)]} {event}"
                    self._rule(self._chance.choice((0, 3, 5)), f"{under}<regex>{pattern}</regex>")
                else:
                    self._rule(self._chance.choice((0, 3, 5)), f"{under}<match>{event} for|{event}:</match>")

    def _request_rules(self) -> None:
        top = self._rule(0, "<category>web-log</category>")
        failed = self._rule(5, f"<if_sid>{top}</if_sid><id>^4|^5</id>")
        self._rule(0, f"<if_sid>{top}</if_sid><id>^2|^3</id><compiled_rule>is_simple_http_request</compiled_rule>")
        for at in range(REQUESTS):
            word = self._word()
            self._made.urls.append(word)
            under = f"<if_sid>{top if at % 2 else failed}</if_sid>"
            if at % 4 == 3:
                self._rule(6, f"{under}<url>/{word}.|?{word}=</url><regex>\\S+{word}\\S+ HTTP</regex>")
            else:
                self._rule(6, f"{under}<url>/{word}.|?{word}=</url>")

    def _operation_rules(self) -> None:
        top = self._rule(0, "<decoded_as>json</decoded_as>")
        for _ in range(VENDORS):
            vendor = self._word()
            under = f'<if_sid>{top}</if_sid><field name="vendor">{vendor}</field>'
            parent = self._rule(0, under)
            self._made.operations[vendor] = list(self._list(OPERATIONS))
            for at, operation in enumerate(self._made.operations[vendor]):
                pattern = operation if at % 10 == 9 else f"^{operation}$"
                self._rule(3, f'<if_sid>{parent}</if_sid><field name="operation">{pattern}</field>')

    def _windows_rules(self) -> None:
        top = self._rule(0, "<category>ossec</category><decoded_as>windows_eventchannel</decoded_as>")
        channel = f'<if_sid>{top}</if_sid><field name="win.system.channel">'
        security = self._rule(0, f"{channel}^Security$</field>")
        process = self._rule(0, f"{channel}Processes/Operational$</field>")
        self._made.logons = self._chance.sample(range(1000, 9000), LOGONS)
        for number in self._made.logons:
            self._rule(3, f'<if_sid>{security}</if_sid><field name="win.system.eventID">^{number}$</field>')
        created = f"<if_sid>{process}</if_sid>"
        for at in range(PROCESSES + PROCESSES_PCRE2):
            image = self._word()
            self._made.images.append(image)
            if at < PROCESSES_PCRE2:
                field = f'type="pcre2">(?i)\\\\{image}\\.exe</field>'
            else:
                field = f">{image}.exe$|{image}.dll$</field>"
            self._rule(4, f'{created}<field name="win.eventdata.image" {field}'.replace('image" >', 'image">'))

    def _word_rules(self) -> None:
        """Rules of no decoder: every event of a program is tested against them."""
        for at in range(WORDS):
            choice = self._list(3)
            words = "|".join(choice)
            if at % 4 == 0:
                self._made.words += choice
            body = (
                f"<match>{words}</match>",
                f"<program_name>^{self._word()}$</program_name><match>{words}</match>",
                f"<regex>{self._word()} \\d+ {self._word()}</regex>",
                f"<decoded_as>{self._chance.choice(self._made.programs).name}</decoded_as><match>{words}</match>",
            )[at % 4]
            self._rule(2, body)


_FORMS = ("named", "dated", "numbered", "classed", "inside")
_PREMATCHES = {
    "named": r"^{}[\d+]: ",
    "dated": r"^\d+/\d+/\d+ \d+:\d+:\d+ {}: ",
    "numbered": r"^\S+ \d+ {}: |^\d+ {}: ",
    "classed": r"^\w+ {}: \w+",
    "inside": r"{}: \w+ \w+ for |{}: \w+ ",
}
"""Prematches of programs without a syslog header, by the form of their logs."""
_TEXTS = ("Access of $(srcuser) was refused.", "A service has changed.", "Request of $(srcip) failed.", "Seen.")
_WEB_DECODERS = [
    r'<decoder name="access"><type>web-log</type><prematch>^\S+ \S+ \S+ [\d+/\w+/\d+:\d+:\d+:\d+ \S+] "\w+ </prematch>'
    r"</decoder>",
    r'<decoder name="access-request"><parent>access</parent><regex>^(\S+) \S+ (\S+) [\S+ \S+] "(\w+) (\S+) HTTP\S+ '
    r"(\d+) </regex><order>srcip, srcuser, protocol, url, id</order></decoder>",
]
_JSON_DECODERS = [
    r'<decoder name="json"><prematch>^{\s*"</prematch></decoder>',
    r'<decoder name="json-fields"><parent>json</parent><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>',
]
