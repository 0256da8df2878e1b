"""Groups of conditions and kinds of tests beyond the public language, by rules on JSON logs."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secmon.engine.input.predecode import Message
from tests.engine.rules_kit import START, Bench, Lines, refused, ruleset

DECODER = """<decoder name="json"><prematch type="pcre2">^\\{"</prematch><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>"""
BASE = '<rule id="100300" level="0"><decoded_as>json</decoded_as><description>base</description></rule>'


def bench(*bodies: str) -> Bench:
    """Rules 100301 and following, each with the next body."""
    rules = "".join(
        f'<rule id="{100301 + at}" level="5"><if_sid>100300</if_sid>{body}<description>x</description></rule>'
        for at, body in enumerate(bodies)
    )
    return Bench(ruleset(DECODER, f'<group name="g,">{BASE}{rules}</group>'))


def matches(body: str, **fields: Any) -> bool:
    return bench(body).rule(json.dumps({"z": 1} | fields)) == 100301


def test_any_all_and_none() -> None:
    body = """<any><field name="a">^1$</field><all><field name="b">^2$</field><field name="c">^3$</field></all></any>
    <none><field name="d">^4$</field><field name="e">^5$</field></none>"""
    assert matches(body, a="1")
    assert matches(body, b="2", c="3")
    assert matches(body, a="1", d="3")
    assert not matches(body, b="2")
    assert not matches(body, a="1", d="4")
    assert not matches(body, a="1", d="x", e="5")
    assert not matches(body)


def test_none_of_a_field_that_is_absent_is_true_but_negation_is_not() -> None:
    assert matches('<none><field name="a">x</field></none>')
    assert not matches('<field name="a" negate="yes">x</field>')
    assert not matches('<all><field name="a" negate="yes">x</field></all>')
    assert matches('<all><field name="a" negate="yes">x</field></all>', a="y")


def test_members_of_a_group_are_separate_conditions() -> None:
    assert matches("<any><match>needle</match><match>straw</match></any>", a="a straw")
    assert matches("<all><match>needle</match><match>straw</match></all>", a="a straw", b="a needle")
    assert not matches("<all><match>needle</match><match>straw</match></all>", a="a straw")


@pytest.mark.parametrize(
    ("networks", "address", "within"),
    [
        ("192.0.2.0/24", "192.0.2.9", True),
        ("192.0.2.0/24", "192.0.3.9", False),
        ("192.0.2.0/24,2001:db8::/32", "2001:db8::1", True),
        ("192.0.2.0/24", "no address", False),
        ("::/0", "192.0.2.9", False),
    ],
)
def test_networks(networks: str, address: str, within: bool) -> None:
    assert matches(f'<field name="ip" type="cidr">{networks}</field>', ip=address) is within


@pytest.mark.parametrize(
    ("test", "value", "holds"),
    [
        ("lt 5", 4, True),
        ("lt 5", 5, False),
        ("lte 5", 5, True),
        ("gt 5", 5, False),
        ("gt -5.5", "-5.4", True),
        ("gte 5", 3000000000, True),
        ("eq 3000000000", 3000000000, True),
        ("gt 5", "0x10", False),
        ("gt 5", "1e3", False),
        ("gt 5", "", False),
        ("gt 99999999999999999998", "99999999999999999999", True),
    ],
)
def test_numbers(test: str, value: object, holds: bool) -> None:
    assert matches(f'<field name="n" type="number">{test}</field>', n=value) is holds


@pytest.mark.parametrize(
    ("pattern", "value", "holds"),
    [
        ("^b$", "Word", True),
        ("^b$", "words", False),
        ("^b", "words", True),
        ("b$", "a word", True),
        ("b", "two words", True),
        ("b", "none", False),
    ],
)
def test_references_to_another_field(pattern: str, value: str, holds: bool) -> None:
    assert matches(f'<field name="a" type="reference">{pattern}</field>', a=value, b="wORD") is holds
    assert matches(f'<field name="a" type="reference" negate="yes">{pattern}</field>', a=value, b="wORD") is not holds
    assert not matches(f'<field name="a" type="reference">{pattern}</field>', a=value)


def test_every_field_is_one_text_with_a_line_for_each() -> None:
    body = '<field name="*" type="osmatch">needle</field>'
    assert matches(body, a="x", b={"c": "a Needle"})
    assert not matches(body, needle="x")
    assert not matches('<field name="*" type="pcre2">a.b</field>', one="a", two="b")


@pytest.mark.parametrize(
    "body",
    [
        "<any></any>",
        "<any/>",
        "<any>" * 22 + "<match>x</match>" + "</any>" * 22,
        '<field name="a" type="cidr">300.1.1.1</field>',
        '<field name="a" type="cidr">ü</field>',
        '<field name="a" type="number">more than 5</field>',
        '<field name="a" type="number">lt</field>',
        '<any><field name="a" type="pcre2">(</field></any>',
    ],
)
def test_mistakes_refuse_the_file(body: str) -> None:
    rule = f'<rule id="100301" level="5"><if_sid>100300</if_sid>{body}<description>x</description></rule>'
    assert refused(DECODER, f'<group name="g,">{BASE}{rule}</group>') in (1274, 5107)


def test_other_elements_are_not_members() -> None:
    rule = '<rule id="100301" level="5"><any><if_sid>1</if_sid></any><description>x</description></rule>'
    assert refused(DECODER, f'<group name="g,">{BASE}{rule}</group>') == 1279


def channel_event(**data: str) -> Message:
    named = "".join(f'<Data Name="{name}">{value}</Data>' for name, value in data.items())
    text = f"<Event><System><EventID>1</EventID></System><EventData>{named}</EventData></Event>"
    return Message("f", b"EventChannel", json.dumps({"Message": "m", "Event": text}).encode())


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("C:\\Windows\\cmd.exe", "C:\\Windows\\cmd.exe"),
        ("\\\\host\\share\\\\x", "\\\\host\\share\\\\x"),
        ('say "hi" &amp;amp; &lt;go&gt; &quot;x&apos; &#65;&#x42;', 'say "hi" &amp; <go> "x\' AB'),
        ("a\tb\r\nc", "a\tb\r\nc"),
        ("\\n is no line end, \\u0041 is no A", "\\n is no line end, \\u0041 is no A"),
        ("&#9999999; &unknown; &", "&#9999999; &unknown; &"),
    ],
)
def test_plain_values_of_the_event_channel_are_those_that_the_host_wrote(sent: str, written: str) -> None:
    pattern = "".join(f"\\x{byte:02x}" for byte in written.encode())
    rule = f"""<rule id="100300" level="5"><category>ossec</category><decoded_as>windows_eventchannel</decoded_as>
    <field name="win.eventdata.value" type="pcre2" plain="yes">^{pattern}$</field><description>x</description></rule>"""
    made = Bench(ruleset(DECODER, f'<group name="g,">{rule}</group>'))
    verdict = made.engine.process(channel_event(Value=sent), START)
    assert verdict.rule is not None


def test_plain_values_of_other_decoders_are_as_they_are() -> None:
    assert matches('<field name="a" type="osmatch" plain="yes">^a\\b$</field>', a="a\\b")
    assert not matches('<field name="a" type="osmatch" plain="yes">^a\\b$</field>', a="a\\\\b")


WORDS = st.sampled_from(["needle", "straw", "hay stack", "stack", "xy"])
TESTS = st.one_of(
    st.tuples(st.sampled_from("abc"), WORDS).map(lambda one: f'<field name="{one[0]}" type="osmatch">{one[1]}</field>'),
    st.tuples(st.sampled_from("abc"), WORDS).map(lambda one: f'<field name="{one[0]}">^{one[1]}$</field>'),
    st.tuples(st.sampled_from("abc"), WORDS, WORDS).map(
        lambda one: f'<field name="{one[0]}" type="pcre2">(?i){one[1]}|{one[2]}</field>'
    ),
    WORDS.map(lambda word: f"<match>{word}</match>"),
    WORDS.map(lambda word: f'<field name="*" type="osmatch">{word}</field>'),
)
TREES = st.recursive(
    TESTS,
    lambda below: st.tuples(st.sampled_from(["any", "all", "none"]), st.lists(below, min_size=1, max_size=3)).map(
        lambda one: f"<{one[0]}>{''.join(one[1])}</{one[0]}>"
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@example(['<field name="a">x</field>'] * 3 + ['<field name="*" type="osmatch">y</field>'], [{"a": "y"}])
@example(['<field name="a">x</field>'] * 3 + ['<field name="b|a" type="osmatch" plain="yes">y</field>'], [{"a": "y"}])
@given(
    st.lists(TREES.filter(lambda tree: not tree.startswith("<match")), min_size=4, max_size=10),
    st.lists(st.dictionaries(st.sampled_from("abc"), WORDS, min_size=1), min_size=1, max_size=4),
)
def test_an_index_leaves_out_no_rule_that_matches(bodies: list[str], events: list[dict[str, str]]) -> None:
    made = bench(*bodies)
    for event in events:
        log = json.dumps(event)
        quick, slow = made.run(log), made.run(log, trace=Lines())
        assert (quick.rule and quick.rule.id) == (slow.rule and slow.rule.id)
