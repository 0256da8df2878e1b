"""What composites look back on: kept by agent and by the values that must be the same, and bounded."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.rules.rule import Rule
from tests.engine.rules_kit import Bench, below, node_log, nodes

COMPOSITE = '<rule id="100331" level="10" frequency="{}" timeframe="60"><if_matched_sid>100330</if_matched_sid>{}<description>x</description></rule>'


def test_old_events_are_removed_from_all_memories() -> None:
    bench = Bench(nodes(below(100330, 5, "<id>^401</id>"), COMPOSITE.format(8, "<same_srcip/>")), memory=64)
    for number in range(500):
        bench.node("GET", code=401, ip=f"192.0.2.{number % 250}", at=0)
    kept = bench.state.composites[100331]
    runs = [run for one in kept.values() for run in one]
    assert sum(len(events) for _, events in runs) == len(bench.state.recent) <= 64
    assert all(kept.values()), "no key without events"
    assert all(events for _, events in runs)


def test_a_flood_of_events_alike_is_one_run() -> None:
    """A search for events that differ passes it at once, instead of comparing each event with all before it."""
    different = "<same_srcip/><different_url/>"
    bench = Bench(nodes(below(100330, 5, "<id>^401</id>"), COMPOSITE.format(33, different)), memory=64)
    for url in (*["/a"] * 30, "/b", "/b", "/a"):
        assert bench.node("GET", url=url, code=401, at=0) == 100330
    (runs,) = bench.state.composites[100331].values()
    assert [len(events) for _, events in runs] == [30, 2, 1]
    assert bench.node("GET", url="/c", code=401, at=0) == 100331


def test_a_pattern_looks_back_on_all_events_of_the_agent() -> None:
    bench = Bench(
        nodes(
            below(100330, 5, "<match>GET</match>"),
            below(100332, 4, "<match>PUT</match>"),
            '<rule id="100331" level="10" frequency="3" timeframe="60"><if_sid>100300</if_sid>'
            "<if_matched_regex>code 401</if_matched_regex><description>x</description></rule>",
        )
    )
    found = [bench.node(action, code=code) for action, code in (("GET", 401), ("PUT", 401), ("GET", 200), ("PUT", 401))]
    assert found == [100330, 100332, 100331, 100332], "the third has two before it; then they are used up"


AGENTS = st.sampled_from(["001", "002"])
EVENTS = st.lists(
    st.tuples(st.integers(0, 20), AGENTS, st.sampled_from(["a", "b"]), st.sampled_from(["/x", "/y"])), max_size=25
)


@settings(max_examples=150)
@given(
    EVENTS,
    st.integers(2, 4),
    st.sampled_from(["", "<same_user/>", "<different_url/>", "<same_user/><different_url/>", "<global_frequency/>"]),
)
def test_the_search_is_that_of_the_reference(
    drawn: list[tuple[int, str, str, str]], frequency: int, extra: str
) -> None:
    """Against a search through all events, newest first (ruleset.md 6.8)."""
    bench = Bench(nodes(below(100330, 5, "<id>^401</id>"), COMPOSITE.format(frequency, extra)))
    known: list[dict[str, object]] = []
    at = 0
    for pause, agent, user, url in drawn:
        at += pause
        event: dict[str, object] = {"at": at, "agent": agent, "user": user, "url": url, "used": False}
        log = node_log("GET", url=url, user=user, code=401)
        found = bench.rule(log, at=at, location=f"[{agent}] (a) 192.0.2.9->/x")
        assert (found == 100331) is _expected(event, known, frequency, extra)
        if found == 100330:
            known.append(event)


def _expected(event: dict[str, object], known: list[dict[str, object]], frequency: int, extra: str) -> bool:
    count, first = 0, None
    for earlier in reversed(known):
        if int(str(event["at"])) - int(str(earlier["at"])) > 60:
            return False
        if "global" not in extra and earlier["agent"] != event["agent"]:
            continue
        if "same_user" in extra and earlier["user"] != event["user"]:
            continue
        if "different_url" in extra and earlier["url"] == event["url"]:
            continue
        if earlier["used"]:
            return False
        count += 1
        if count == frequency - 1:
            if first is not None:
                first["used"] = True
            return True
        first = first or earlier
    return False


def test_an_account_after_a_login_after_brute_force() -> None:
    """The chain of the public rules: the login's alert has two places, so that it counts twice for the account's."""
    bench = Bench(
        nodes(
            below(100401, 5, "<id>^401</id><group>authentication_failed,</group>"),
            '<rule id="100402" level="10" frequency="4" timeframe="120"><if_matched_sid>100401</if_matched_sid>'
            "<same_srcip/><description>x</description><group>authentication_failures,</group></rule>",
            below(100403, 3, "<match>LOGIN</match><group>authentication_success,</group>"),
            below(100404, 4, "<user>root</user><group>authentication_success,</group>", parent=100403),
            '<rule id="100405" level="12" timeframe="240"><if_group>authentication_success</if_group>'
            "<if_matched_group>authentication_failures</if_matched_group><same_srcip/>"
            "<description>x</description><group>attacks,</group></rule>",
            below(100406, 8, "<match>USERADD</match><group>adduser,</group>"),
            '<rule id="100407" level="15" frequency="3" timeframe="300"><if_group>adduser</if_group>'
            "<if_matched_group>attacks</if_matched_group><description>x</description></rule>",
        )
    )
    tries = [bench.node("TRY", code=401, at=at) for at in range(4)]
    assert tries == [100401, 100401, 100401, 100402]
    assert bench.node("LOGIN", at=10) == 100405
    verdict = bench.run(node_log("USERADD"), at=20)
    assert verdict.rule is not None
    assert (verdict.rule.id, verdict.rule.level, len(verdict.event.previous)) == (100407, 15, 2)


def test_a_composite_counts_its_own_alerts_when_its_group_is_the_one_it_counts() -> None:
    composite = (
        '<rule id="100411" level="10" frequency="2"><if_matched_group>refused</if_matched_group>'
        "<description>x</description><group>{}</group></rule>"
    )
    base = below(100410, 5, "<id>^401</id><group>refused,</group>")
    found = []
    for own in ("other,", "refused,"):
        bench = Bench(nodes(base, composite.format(own)))
        found.append([bench.node("GET", code=401, at=at) for at in range(5)])
    assert found[0] == [100410, 100411, 100411, 100411, 100411]
    assert found[1] == [100410, 100411, 100410, 100411, 100410], "its own alert is used up and ends the search"


def test_a_skipped_composite_counts_nothing() -> None:
    compiled = nodes(
        below(100412, 5, "<id>^401</id><group>refused,</group>"),
        '<rule id="100413" level="9"><if_sid>999</if_sid><if_matched_sid>100412</if_matched_sid><description>x</description></rule>',
        '<rule id="100414" level="9"><if_matched_group>refused</if_matched_group><description>x</description></rule>',
    )
    assert not compiled.rules.by_id[100412].composites_by_id
    assert [one.id for one in compiled.rules.by_id[100412].composites_by_group] == [100414], (
        "no composite asks for it by its id"
    )


DRAWN = st.lists(
    st.tuples(
        st.integers(0, 5),  # level, 0: a composite
        st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),  # parents
        st.sampled_from(["GET", "401", "/x"]),
        st.booleans(),  # of the group that is counted
        st.integers(2, 5),  # frequency
    ),
    min_size=2,
    max_size=8,
)


def drawn_rules(drawn: list[tuple[int, list[int], str, bool, int]]) -> list[str]:
    rules = [below(100420, 1, "<group>counted,</group>")]
    for at, (level, parents, word, counted, frequency) in enumerate(drawn):
        above = ",".join(str(100420 + parent) for parent in dict.fromkeys(min(parent, at) for parent in parents))
        many = "" if level else "<if_matched_group>counted</if_matched_group>"
        group = "<group>counted,</group>" if counted else ""
        rules.append(
            f'<rule id="{100421 + at}" level="{level or 8 + at}" frequency="{frequency}" timeframe="30">'
            f"<if_sid>{above}</if_sid>{many}<match>{word}</match>{group}<description>x</description></rule>"
            if many
            else f'<rule id="{100421 + at}" level="{level}"><if_sid>{above}</if_sid><match>{word}</match>{group}'
            "<description>x</description></rule>"
        )
    return rules


class Entry:
    """An event as the reference remembers it."""

    def __init__(self, at: int, text: str) -> None:
        self.at, self.text, self.matched = at, text, 0


class Reference:
    """The tree walked, and events appended once per place (ruleset.md 6.6 to 6.8), as they are written there."""

    def __init__(self, roots: Sequence[Rule]) -> None:
        self._roots = roots
        self.occurrences: Counter[int] = Counter()
        self._walk(roots)
        self._lists: dict[int, list[Entry]] = {}

    def _walk(self, rules: Sequence[Rule]) -> None:
        for rule in rules:
            self.occurrences[rule.id] += 1
            self._walk(rule.children)

    def rule(self, event: Entry) -> int | None:
        found = self._select(self._roots, event)
        for composite in found.composites_by_group if found is not None and found.level else ():
            assert found is not None
            self._lists.setdefault(composite.id, []).extend([event] * self.occurrences[found.id])
        return found.id if found is not None else None

    def _select(self, rules: Sequence[Rule], event: Entry) -> Rule | None:
        for rule in rules:
            if self._matches(rule, event):
                found = self._select(rule.children, event)
                if found is not None or not rule.noalert:
                    return found or rule
        return None

    def _matches(self, rule: Rule, event: Entry) -> bool:
        if rule.id < 100:
            return rule.category == "syslog"
        if rule.id <= 100420:
            return True
        return MATCHES[rule.id] in event.text and (rule.composite is None or self._search(rule, event))

    def _search(self, rule: Rule, event: Entry) -> bool:
        assert rule.composite is not None
        needed = rule.composite.frequency - 1
        first = None
        for count, earlier in enumerate(reversed(self._lists.get(rule.id, [])), 1):
            if event.at - earlier.at > rule.composite.timeframe or earlier.matched >= rule.level:
                return False
            if count == needed:
                event.matched = rule.level
                if first is not None:
                    first.matched = rule.level
                return True
            first = first or earlier
        return False


MATCHES: dict[int, str] = {}
"""What each drawn rule looks for."""


@settings(max_examples=150)
@given(DRAWN, st.lists(st.tuples(st.integers(0, 9), st.sampled_from([200, 401])), max_size=15))
def test_an_event_counts_once_per_occurrence_of_its_rule(
    drawn: list[tuple[int, list[int], str, bool, int]], events: list[tuple[int, int]]
) -> None:
    compiled = nodes(*drawn_rules(drawn))
    MATCHES.update({100421 + at: one[2] for at, one in enumerate(drawn)})
    bench, reference = Bench(compiled), Reference(compiled.rules.roots)
    assert {number: rule.occurrences for number, rule in compiled.rules.by_id.items()} == dict(reference.occurrences)
    at = 0
    for pause, code in events:
        at += pause
        log = node_log("GET", code=code)
        assert bench.rule(log, at=at) == reference.rule(Entry(at, log))


def test_very_many_occurrences_cost_nothing() -> None:
    """Each rule is a child of all before it, so that the last one has 2**39 places."""
    rules = [below(100500, 3, "<group>deep,</group>")]
    for at in range(1, 41):
        above = ",".join(str(100500 + number) for number in range(at))
        rules.append(
            f'<rule id="{100500 + at}" level="3"><if_sid>{above}</if_sid><match>step {at}</match><group>deep,</group>'
            "<description>x</description></rule>"
        )
    rules.append(
        '<rule id="100600" level="9" frequency="9999"><if_sid>100300</if_sid><if_matched_group>deep</if_matched_group>'
        "<match>last</match><description>x</description></rule>"
    )
    bench = Bench(nodes(*rules))
    assert bench.engine.ruleset.rules.by_id[100540].occurrences == 2**39
    assert [bench.node("step", "40"), bench.node("last")] == [100540, 100600]


EACH = '<rule id="100330" level="10" timeframe="60"><if_sid>100303</if_sid><if_matched_all{}>100301,100302</if_matched_all>{}<description>x</description></rule>'


def three_steps(attributes: str = "", body: str = "<same_srcip/>") -> Bench:
    steps = [below(100301 + at, 5, f"<action>{action}</action>") for at, action in enumerate(("one", "two", "three"))]
    return Bench(nodes(*steps, EACH.format(attributes, body)))


def test_a_composite_of_several_rules_needs_an_event_of_each() -> None:
    bench = three_steps()
    assert [bench.node(action, at=at) for at, action in enumerate(["three", "two", "three", "two", "one", "three"])] == [
        100303, 100302, 100303, 100302, 100301, 100330,
    ]  # fmt: skip
    assert bench.node("three", at=6) == 100303  # the newest of them has completed one already
    assert [bench.node(action, at=7) for action in ("one", "two", "three")] == [100301, 100302, 100330]


def test_a_composite_of_several_rules_has_a_time_frame_and_keys() -> None:
    bench = three_steps()
    assert [bench.node("one", at=0), bench.node("two", at=30), bench.node("three", at=61)][-1] == 100303
    bench = three_steps()
    assert [bench.node("one", ip="192.0.2.9"), bench.node("two"), bench.node("three")][-1] == 100303


def test_a_composite_of_several_rules_in_their_order() -> None:
    bench = three_steps(' ordered="yes"')
    assert [bench.node("two"), bench.node("one"), bench.node("three")][-1] == 100303
    assert [bench.node("two"), bench.node("three")][-1] == 100330


def test_distinct_values_count_once() -> None:
    base = below(100301, 5, "<action>get</action>")
    composite = '<rule id="100302" level="10" frequency="3" timeframe="60"><if_matched_sid>100301</if_matched_sid><distinct_field>url</distinct_field><description>x</description></rule>'
    bench = Bench(nodes(base, composite))
    assert [bench.node("get", url) for url in ("/a", "/a", "/b", "/b", "/a", "/c")] == [100301] * 5 + [100302]


def test_rules_that_a_composite_of_several_names_must_be_loaded() -> None:
    made = nodes(below(100303, 5, "<action>three</action>"), EACH.format("", ""))
    assert 100330 not in made.rules.by_id
    assert [message.number for message in made.messages] == [7620]
