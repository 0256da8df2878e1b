"""The indexed search of decoders against the plain one, which tries each in its order."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.decoders.decoder_loader import load_decoders
from secmon.engine.decoders.decoder_search import DecoderTree
from secmon.engine.decoders.json_fields import decode_json
from secmon.engine.event import Event
from secmon.engine.input.predecode import Message, predecode
from secmon.engine.ruleset.diagnostics import Diagnostics, RulesetError
from tests.engine.decoders import plain_walk
from tests.engine.decoders.kit import HEADER, NOW

WORDS = st.sampled_from(["open", "Open", "opened", "key", "key=v", "KEY=1", "lock", "x", "1", "op", ""])
LOGS = st.lists(WORDS, max_size=6).map(" ".join)
PATTERNS = st.sampled_from(
    [
        r"^open", r"open", r"^opened \w+", r"key=(\S+)", r"^\w+ key", r"lock|open", r"^lock|^x", r"op", r"\S+ lock$",
        r"^key|\d+", r"(\w+) open", r"=(\w)",
    ]
)  # fmt: skip
PCRE2 = st.sampled_from([r"^(?i)open(?:ed)?\b", r"key=(\w)", r"^\s*\{", r"(?:lock|opened) ", r"(open)?key"])
EXPRESSIONS = st.one_of(PATTERNS.map(lambda one: ("", one)), PCRE2.map(lambda one: (' type="pcre2"', one)))
PROGRAMS = st.sampled_from(["", "^app", "app", "^other$", "!app"])


@dataclass(frozen=True)
class Drawn:
    """A decoder as drawn: its parts are empty or None where it has none."""

    name: str
    prematch: tuple[str, str] | None
    prematch_offset: bool
    regex: tuple[str, str] | None
    offset: str
    program: str | None = None
    plugin: bool = False

    def xml(self, parent: str) -> str:
        parts = [f"<parent>{parent}</parent>"] if parent else []
        if self.program is not None and not parent:
            parts.append(f"<program_name>{self.program}</program_name>")
        if self.prematch is not None:
            offset = ' offset="after_parent"' if parent and self.prematch_offset else ""
            parts.append(f"<prematch{self.prematch[0]}{offset}>{self.prematch[1]}</prematch>")
        if self.plugin:
            parts.append("<plugin_decoder>JSON_Decoder</plugin_decoder>")
        elif self.regex is not None:
            offset = f' offset="{self.offset}"' if parent and self.offset else ""
            parts.append(f"<regex{self.regex[0]}{offset}>{self.regex[1]}</regex><order>srcip, f, g</order>")
        return f'<decoder name="{parent}{self.name}">{"".join(parts)}</decoder>'


DRAWN = st.builds(
    Drawn,
    st.sampled_from("abcdef"),
    st.none() | EXPRESSIONS,
    st.booleans(),
    st.none() | EXPRESSIONS,
    st.sampled_from(["", "after_parent", "after_prematch", "after_regex"]),
    st.none() | PROGRAMS,
    st.booleans(),
)
TREES = st.lists(st.tuples(DRAWN, st.lists(DRAWN, max_size=9)), min_size=1, max_size=9)


def seen(event: Event) -> tuple[object, ...]:
    return event.decoder, event.category, event.parent, event.static, event.dynamic


def loadable(drawn: list[tuple[Drawn, list[Drawn]]]) -> str:
    """The decoders as XML, without those that the loader refuses."""
    kept = ""
    for root, children in drawn:
        for xml in (root.xml(""), *(child.xml(root.name) for child in children)):
            try:
                load_decoders([("etc/decoders/d.xml", (kept + xml).encode())], Diagnostics())
            except RulesetError:
                continue
            kept += xml
    return kept


@settings(max_examples=80, deadline=None)
@given(TREES, st.lists(LOGS, min_size=1, max_size=6), st.booleans())
def test_every_log_is_decoded_as_by_the_plain_walk(
    drawn: list[tuple[Drawn, list[Drawn]]], logs: list[str], program: bool
) -> None:
    xml = loadable(drawn)
    if not xml:
        return
    decoders = load_decoders([("etc/decoders/d.xml", xml.encode())], Diagnostics())
    tree = DecoderTree(decoders, {"JSON_Decoder": decode_json})
    for log in logs:
        message = Message("1", b"/var/log/demo.log", (f"{HEADER}app: {log}" if program else log).encode())
        indexed, plain = (predecode(message, time=NOW, host=b"mgr") for _ in range(2))
        tree.decode(indexed)
        plain_walk.decode(decoders, plain)
        assert seen(indexed) == seen(plain)
