"""The index of children against asking every one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.rules.child_index import BLOCK, BlockedIndex, ChildIndex
from tests.engine.rules_kit import NODE_DECODER, Bench, Lines, node_log, ruleset

WORDS = st.sampled_from(["GET", "put", "Del", "a", "b"])
CONDITIONS = st.one_of(
    WORDS.map(lambda word: f"<action>{word}</action>"),
    st.sampled_from(["^200$", "^200$|^401$", "^4", "401"]).map(lambda code: f"<id>{code}</id>"),
    st.sampled_from(["^200$", "^4"]).map(lambda code: f'<id negate="yes">{code}</id>'),
    WORDS.map(lambda word: f"<match>{word}</match>"),
    st.sampled_from(["from 192|del", "!code 4", "code 401$|^put", "^get"]).map(lambda text: f"<match>{text}</match>"),
    st.sampled_from(["^del", "code 40", r"from \S+ code|put", "^a"]).map(lambda text: f"<regex>{text}</regex>"),
    st.sampled_from(["(?i)^del", "code 2|put", "^noded?$"]).map(lambda text: f'<match type="pcre2">{text}</match>'),
    st.sampled_from(["^noded$", "other"]).map(lambda name: f"<program_name>{name}</program_name>"),
    st.sampled_from(["/x", "/long|/path"]).map(
        lambda url: f'<url negate="{"yes" if url == "/x" else "no"}">{url}</url>'
    ),
    st.sampled_from(["^1$", "one"]).map(lambda value: f'<field name="absent">{value}</field>'),
    st.sampled_from(["node", "sca"]).map(lambda name: f"<decoded_as>{name}</decoded_as>"),
    st.just(""),
)
RULES = st.lists(st.tuples(st.integers(0, 6), CONDITIONS, CONDITIONS, st.integers(0, 12), st.booleans()), max_size=25)


def tree(drawn: list[tuple[int, str, str, int, bool]]) -> str:
    """Rules below the root or below one that came before."""
    base = '<rule id="100300" level="0"><decoded_as>node</decoded_as><description>base</description></rule>'
    lines = [base]
    for at, (level, one, other, parent, hub) in enumerate(drawn):
        above = f"<if_sid>{100299 + parent if parent <= at else 100300}</if_sid>" if parent else ""
        attributes = 'noalert="1"' if hub else ""
        both = one + other if one.split(">")[0] != other.split(">")[0] else one
        lines.append(
            f'<rule id="{100301 + at}" level="{level}" {attributes}>{above}{both}<description>x</description></rule>'
        )
    return f'<group name="g,">{"".join(lines)}</group>'


@settings(max_examples=150)
@given(RULES, st.lists(st.tuples(WORDS, st.sampled_from([200, 401, 404])), min_size=1, max_size=4))
def test_the_result_is_that_of_asking_every_rule(
    drawn: list[tuple[int, str, str, int, bool]], events: list[tuple[str, int]]
) -> None:
    bench = Bench(ruleset(NODE_DECODER, tree(drawn)))
    for action, code in events:
        log = node_log(action, code=code)
        quick, slow = bench.run(log), bench.run(log, trace=Lines())
        assert (quick.rule and quick.rule.id) == (slow.rule and slow.rule.id)
    assert bench.rule("no node at all") in (None, *range(100301, 100330))


def test_fields_that_an_event_lacks_exclude_their_rules() -> None:
    below = "".join(
        f'<rule id="{100301 + at}" level="3"><if_sid>100300</if_sid>'
        f'<field name="{name}">.</field><description>x</description></rule>'
        for at, name in enumerate(["one", "Two", "three.four", "five", "six"])
    )
    decoder = '<decoder name="js"><prematch>^{</prematch><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>'
    base = '<rule id="100300" level="1"><decoded_as>js</decoded_as><description>base</description></rule>'
    compiled = ruleset(decoder, f'<group name="g,">{base}{below}</group>')
    index = compiled.rules.by_id[100300].index
    assert isinstance(index, ChildIndex)
    for log, candidates in (
        ('{"two":"a.","other":"."}', [100302]),
        ('{"three":{"four":"."},"six":"."}', [100303, 100305]),
        ('{"one":"."}', [100301]),
        ('{"other":"."}', []),
    ):
        event = Bench(compiled).run(log).event
        assert [one.id for one in index.candidates(event)] == candidates


def test_values_of_events_are_not_remembered() -> None:
    below = "".join(
        f'<rule id="{100301 + at}" level="3"><if_sid>100300</if_sid><id>^{at}$</id><description>x</description></rule>'
        for at in range(10)
    )
    base = '<rule id="100300" level="1"><decoded_as>node</decoded_as><description>base</description></rule>'
    compiled = ruleset(NODE_DECODER, f'<group name="g,">{base}{below}</group>')
    bench = Bench(compiled)
    assert [bench.rule(node_log("GET", code=code)) for code in (*range(10), *range(100, 200))] == [
        *range(100301, 100311),
        *[100300] * 100,
    ]
    index = compiled.rules.by_id[100300].index
    assert isinstance(index, ChildIndex)
    assert len(index._members._known) == 11


def test_an_index_of_very_many_children_is_made_in_blocks() -> None:
    """Its sets have as many bits as a block, so that the largest upload takes no memory in the square of its rules."""
    count = 2 * BLOCK + 10
    below = "".join(
        f'<rule id="{200000 + at}" level="3"><if_sid>100300</if_sid><match>w{at}z</match>'
        "<description>x</description></rule>"
        for at in range(count)
    )
    base = '<rule id="100300" level="1"><decoded_as>node</decoded_as><description>base</description></rule>'
    compiled = ruleset(NODE_DECODER, f'<group name="g,">{base}{below}</group>')
    root = compiled.rules.by_id[100300]
    assert isinstance(root.index, BlockedIndex)
    assert [len(block._members._all) for block in root.index._blocks] == [BLOCK, BLOCK, 10]
    bench = Bench(compiled)
    for at in (0, BLOCK - 1, BLOCK, count - 1):
        found = bench.run(node_log(f"w{at}z"))
        assert [one.id for one in root.index.candidates(found.event)] == [200000 + at]
        assert found.rule is not None
        assert found.rule.id == 200000 + at
