"""The worked examples of rules (ruleset.md 13)."""

import pytest

from secmon.engine.output.describe import describe
from secmon.engine.ruleset.compiled import Ruleset
from tests.engine.decoders.test_decoder_search import DUAL, KV, OWN, PCX, SYS, VAULT
from tests.engine.rules_kit import NODE_DECODER, Bench, Lines, below, node_log, nodes, ruleset

H = "Nov 14 22:13:20 hq "


def numbers(compiled: Ruleset) -> list[int]:
    return [one.number for one in compiled.messages]


def rule(number: int, level: int, body: str, attributes: str = "") -> str:
    return f'<rule id="{number}" level="{level}" {attributes}>{body}<description>{number}</description></rule>'


def group(*rules: str, name: str = "test,") -> str:
    return f'<group name="{name}">{"".join(rules)}</group>'


def test_e1_program_decoder_description_and_groups() -> None:
    bench = Bench(
        ruleset(
            VAULT,
            '<group name="vault,">'
            '<rule id="100100" level="3"><decoded_as>vault</decoded_as><description>vault event</description></rule>'
            '<rule id="100101" level="5"><if_sid>100100</if_sid><field name="box">^B7$</field>'
            "<description>box $(box) opened by $(dstuser) at $(srcip) on $(hostname)</description>"
            "<group>access,pci_dss_10.2.5,</group></rule></group>",
        )
    )
    verdict = bench.run(f"{H}vaultd[9]: OPEN B7 by ana from 192.0.2.4")
    assert verdict.rule is not None
    assert (verdict.rule.id, verdict.rule.groups) == (100101, b"vault,access,pci_dss_10.2.5,")
    assert describe(verdict.rule, verdict.event) == b"box B7 opened by ana at 192.0.2.4 on hq"
    assert bench.rule(f"{H}vaultd[9]: CLOSE code 77") == 100100
    assert bench.rule(f"{H}vaultd[9]: nothing") == 100100


def test_e2_program_name_hides_prefix_decoders() -> None:
    bench = Bench(ruleset(KV.format(program=""), group(rule(100110, 2, "<decoded_as>kv</decoded_as>"))))
    assert bench.rule("KV a=b") == 100110
    assert bench.rule(f"{H}app: KV a=b") is None


def test_e7_a_childs_own_name() -> None:
    rules = group(
        rule(100150, 2, "<decoded_as>own</decoded_as>"),
        rule(100151, 2, "<decoded_as>own-x</decoded_as>"),
        rule(100152, 2, "<decoded_as>own-y</decoded_as>"),
    )
    bench = Bench(ruleset(OWN, rules))
    assert [bench.rule(log) for log in ("OWN X", "OWN Y", "OWN Z")] == [100151, 100150, 100150]


def test_e9_pcre2_in_rules() -> None:
    rules = (
        r'<group name="x,"><rule id="100160" level="3"><decoded_as>pcx</decoded_as><regex type="pcre2">p=\d{4}\b</regex>'
        "<description>x $(srcuser)/$(srcport)/$(nope)</description></rule></group>"
    )
    bench = Bench(ruleset(PCX, rules))
    shown = []
    for log in ("PCX: u=jo p=8080", "pcx: p=8080"):
        verdict = bench.run(log)
        assert verdict.rule is not None
        shown.append(describe(verdict.rule, verdict.event))
    assert shown == [b"x jo/8080/", b"x /8080/"]
    assert bench.rule("pcx: p=80") is None


def test_e13_the_decoders_type_selects_the_tree() -> None:
    edge = r"""<decoder name="edge"><type>firewall</type><program_name>^edge$</program_name>
      <regex>^(\w+) (\S+):(\d+) (\S+):(\d+) (\w+)</regex><order>action,srcip,srcport,dstip,dstport,protocol</order></decoder>"""
    rules = group(
        rule(100500, 4, "<category>firewall</category><action>DROP</action>"), rule(100501, 9, "<match>DROP</match>")
    )
    bench = Bench(ruleset(edge, rules))
    assert bench.rule("Nov 14 22:13:20 gw edge: DROP 192.0.2.1:55 198.51.100.2:22 tcp") == 100500


@pytest.mark.parametrize(
    ("name", "expected"), [("alpha,beta", b"alpha,betagamma,"), ("alpha,beta,", b"alpha,beta,gamma,")]
)
def test_e14_group_strings(name: str, expected: bytes) -> None:
    compiled = ruleset(NODE_DECODER, group(rule(100100, 3, "<group>gamma,</group>"), name=name))
    assert compiled.rules.by_id[100100].groups == expected


def test_e15_two_roots_of_one_name() -> None:
    bench = Bench(ruleset(DUAL, group(rule(100100, 3, "<decoded_as>dual</decoded_as>"))))
    assert bench.rule("Nov 14 22:13:20 h dual: k=1") == bench.rule("dual: k=2") == 100100


def test_e17_the_first_root_wins() -> None:
    bench = Bench(ruleset(SYS, group(rule(100100, 3, "<decoded_as>bb</decoded_as>"))))
    assert bench.rule("sys x") is None


def test_e21_conditions_on_dynamic_fields() -> None:
    decoder = r'<decoder name="rr"><prematch>^RR </prematch><regex>^RR (\d+)</regex><order>n</order></decoder>'
    rules = group(
        rule(100200, 3, '<decoded_as>rr</decoded_as><field name="n" negate="yes">^7$</field>'),
        rule(100201, 2, '<decoded_as>rr</decoded_as><field name="m" negate="yes">^7$</field>'),
    )
    bench = Bench(ruleset(decoder, rules))
    assert [bench.rule(log) for log in ("RR 8", "RR 7")] == [100200, None]


def test_e22_order_of_siblings() -> None:
    bench = Bench(
        nodes(
            below(100301, 3, "<match>GET</match>"),
            below(100302, 7, "<match>/admin</match>"),
            below(100303, 0, "<match>/health</match>"),
        )
    )
    trace = Lines()
    bench.run(node_log("GET", "/admin"), trace=trace)
    assert trace.lines == ["?1", "*1", ">", "?100300", "*100300", ">", "?100303", "?100302", "*100302"]
    assert [bench.node("GET", "/x"), bench.node("GET", "/admin/health"), bench.node("PUT", "/x")] == [
        100301,
        100303,
        100300,
    ]
    assert not bench.run(node_log("GET", "/admin/health")).alert


def test_e23_equal_levels_keep_the_order_of_the_file() -> None:
    bench = Bench(nodes(below(100305, 4, "<match>GET</match>"), below(100304, 4, "<match>GET</match>")))
    assert bench.node("GET") == 100305


def test_e24_negation() -> None:
    bench = Bench(
        nodes(
            below(100306, 4, "<match>!GET|PUT</match>"),
            below(100307, 3, '<action negate="yes">GET</action>'),
            below(100308, 2, r'<regex negate="yes" type="pcre2">code 2\d\d$</regex>'),
        )
    )
    found = [bench.node("DEL"), bench.node("PUT"), bench.node("GET", code=500), bench.node("GET"), bench.node("get")]
    assert found == [100306, 100307, 100308, 100300, 100307]


def test_e25_addresses() -> None:
    bench = Bench(
        nodes(
            below(100310, 4, "<srcip>192.0.2.0/25</srcip><srcip>198.51.100.7</srcip>"),
            below(100311, 3, '<srcip negate="yes">203.0.113.0/24</srcip>'),
        )
    )
    addresses = ["192.0.2.1", "192.0.2.200", "198.51.100.7", "203.0.113.9", "fe80::1", "host7"]
    assert [bench.node("GET", ip=one) for one in addresses] == [100310, 100311, 100310, 100300, 100311, 100311]


def test_e26_lists() -> None:
    base = '<rule id="100300" level="0"><decoded_as>node</decoded_as><description>base</description></rule>'
    rules = (
        below(100320, 9, '<list field="user" lookup="match_key_value" check_value="^adm">users</list>'),
        below(100321, 8, '<list field="srcip" lookup="address_match_key">ips</list>'),
        below(100322, 7, '<list field="user" lookup="not_match_key">users</list>'),
        below(100323, 6, '<list field="user">nowhere</list>'),
    )
    lists = {"ips": b"192.0.2.:lan\n198.51.100.7:bad\n10.:rfc\n", "users": b"ana:admin\nbob:staff\n"}
    compiled = ruleset(NODE_DECODER, group(base, *rules), lists=lists)
    assert numbers(compiled) == [7616]
    bench = Bench(compiled)
    asked = [
        ("ana", "203.0.113.1"),
        ("bob", "192.0.2.77"),
        ("bob", "10.9.8.7"),
        ("eve", "203.0.113.1"),
        ("bob", "203.0.113.1"),
    ]
    assert [bench.node("GET", user=user, ip=ip) for user, ip in asked] == [100320, 100321, 100321, 100322, 100300]


def test_e27_first_time_seen() -> None:
    decoder = r"""<decoder name="fx"><prematch>^login </prematch><regex offset="after_prematch">^(\w+) (\S+)</regex>
      <order>user, srcip</order><fts>name, user, location</fts></decoder>"""
    rules = group(rule(100386, 1, "<decoded_as>fx</decoded_as>"), rule(100387, 4, "<if_sid>100386</if_sid><if_fts/>"))
    bench = Bench(ruleset(decoder, rules))
    logs = ["login ana 192.0.2.1", "login ana 192.0.2.2", "login bob 192.0.2.1"]
    assert [bench.rule(log) for log in logs] == [100387, 100386, 100387]
    assert bench.rule("login ana 192.0.2.1", location="/other") == 100387


def frequency(count: str, extra: str = "") -> Ruleset:
    return nodes(
        below(100330, 5, "<id>^401</id>"),
        f'<rule id="100331" level="10" {count} timeframe="60"><if_matched_sid>100330</if_matched_sid><same_srcip/>{extra}'
        "<description>many</description></rule>",
    )


def test_e28_frequency_four_counts_again() -> None:
    bench = Bench(frequency('frequency="4"'))
    verdicts = [bench.run(node_log("GET", code=401), at=10 * step) for step in range(12)]
    fired = [verdict.rule.id if verdict.rule else 0 for verdict in verdicts]
    assert [at + 1 for at, number in enumerate(fired) if number == 100331] == [4, 8, 12]
    assert set(fired) == {100330, 100331}
    assert [len(one.event.previous) for one in verdicts if one.rule and one.rule.id == 100331] == [3, 3, 3]
    assert [one.fired for one in verdicts if one.rule and one.rule.id == 100331] == [1, 2, 3]


def test_e29_frequency_two_never_counts_again() -> None:
    bench = Bench(frequency('frequency="2"'))
    assert [bench.node("GET", code=401, at=at) for at in (0, 10, 20, 30, 200)] == [
        100330,
        100331,
        100331,
        100331,
        100330,
    ]


def test_e30_same_and_different() -> None:
    bench = Bench(
        nodes(
            below(100340, 5, "<id>^401</id>"),
            '<rule id="100341" level="10" frequency="3"><if_matched_sid>100340</if_matched_sid><same_user/><different_url/>'
            "<description>x</description></rule>",
        )
    )
    events = [("a", "/a"), ("b", "/b"), ("a", "/b"), ("a", "/b"), ("a", "/c")]
    assert [bench.node("GET", url, user, code=401) for user, url in events] == [100340] * 4 + [100341]


def test_e31_composites_by_group() -> None:
    bench = Bench(
        nodes(
            below(100350, 5, "<id>^401</id><group>authfail,</group>"),
            below(100351, 5, "<id>^403</id><group>authfail,</group>"),
            '<rule id="100352" level="10" frequency="3"><if_matched_group>authfail</if_matched_group>'
            "<description>x</description></rule>",
        )
    )
    assert [bench.node("GET", code=code) for code in (401, 403, 401, 200)] == [100350, 100351, 100352, 100300]


def test_e32_silence() -> None:
    bench = Bench(
        nodes(
            below(100360, 5, "<match>GET</match>"),
            below(100361, 8, "<match>/admin</match>", 'ignore="30"', parent=100360),
        )
    )
    assert [bench.node("GET", "/admin", at=at) for at in (0, 10, 29, 31)] == [100361, 100360, 100360, 100361]


def test_e33_a_hub_that_never_alerts() -> None:
    bench = Bench(
        nodes(
            below(100370, 5, "<match>GET</match>", 'noalert="1"'),
            below(100371, 6, "<match>/a</match>", parent=100370),
            below(100372, 2, ""),
        )
    )
    assert [bench.node("GET", "/a"), bench.node("GET", "/b")] == [100371, 100372]


def test_e34_overwrite() -> None:
    first = nodes_xml(below(100380, 5, "<match>GET</match>"), below(100381, 4, "<match>GET</match>"))
    later = group(
        '<rule id="100380" level="3" overwrite="yes"><match>/a</match><description>new</description></rule>',
        '<rule id="100399" level="2" overwrite="yes"><if_sid>100300</if_sid><description>none</description></rule>',
        rule(100381, 4, "<match>GET</match>"),
        name="local,",
    )
    compiled = ruleset(NODE_DECODER, first + later)
    bench = Bench(compiled)
    verdict = bench.run(node_log("GET", "/a"))
    assert verdict.rule is not None
    assert (verdict.rule.id, verdict.rule.level, verdict.rule.groups) == (100380, 3, b"local,")
    assert [bench.node("GET", "/b"), bench.node("PUT", "/b")] == [100381, 100399]
    assert numbers(compiled) == [7613, 7612]


def test_siblings_after_an_overwrite_are_placed_by_its_new_level() -> None:
    def found(level: int, later: int) -> list[int]:
        rules = nodes_xml(
            below(100380, 5, "<match>GET</match>"),
            below(100381, 4, "<match>GET</match>"),
            f'<rule id="100380" level="{level}" overwrite="yes"><match>GET</match><description>x</description></rule>',
            below(100382, later, "<match>GET</match>"),
        )
        compiled = ruleset(NODE_DECODER, rules)
        return [one.id for one in compiled.rules.by_id[100300].children]

    assert found(5, 4) == [100380, 100381, 100382]
    assert found(3, 4) == [100382, 100380, 100381], "the overwritten rule stays before 100381, which weighs more"
    assert found(9, 6) == [100380, 100382, 100381]
    assert found(0, 3) == [100382, 100380, 100381], "level 0 of an overwrite is below all others"


def nodes_xml(*rules: str) -> str:
    base = '<rule id="100300" level="0"><decoded_as>node</decoded_as><description>base</description></rule>'
    return group(base, *rules, name="node,")


def test_e35_parents_by_group_and_level() -> None:
    bench = Bench(
        nodes(
            below(100382, 5, "<match>GET</match><group>web_access,</group>"),
            rule(100383, 7, "<if_group>web_access</if_group><url>/a</url>"),
            rule(100384, 9, "<if_level>5</if_level><user>root</user>"),
        )
    )
    assert bench.node("GET", "/a", user="a") == 100383
    assert bench.node("GET", "/b", user="root") == bench.node("PUT", "/b", user="root") == 100384


def test_e36_a_rule_without_a_parent() -> None:
    assert Bench(nodes(rule(100390, 3, "<match>zork</match>"))).rule("some zork text") == 100390


def test_e37_parents_that_are_not_there() -> None:
    compiled = nodes(
        rule(100391, 3, "<if_sid>999</if_sid>"),
        rule(100392, 3, "<if_sid>1, 999</if_sid>"),
        rule(100393, 3, "<if_sid>1;2</if_sid>"),
    )
    assert {100391, 100392, 100393} & set(compiled.rules.by_id) == {100392}
    assert numbers(compiled) == [7617, 7619, 7617, 7618]


def test_e38_variables() -> None:
    decoder = '<var name="PFX">^VX</var><decoder name="vx"><prematch>$PFX</prematch></decoder>'
    bench = Bench(ruleset(decoder, '<var name="BAD">oops|fail</var>' + group(rule(100394, 3, "<match>$BAD</match>"))))
    assert [bench.rule("VX it will FAIL"), bench.rule("VX fine")] == [100394, None]


def test_e39_agents_and_global_frequency() -> None:
    composite = '<rule id="{}" level="{}" frequency="3"><if_matched_sid>100590</if_matched_sid>{}<description>x</description></rule>'
    bench = Bench(
        nodes(
            below(100590, 3, "<match>GET</match>"),
            composite.format(100591, 8, ""),
            composite.format(100592, 7, "<global_frequency/>"),
        )
    )
    found = [
        bench.rule(node_log("GET"), location=f"[{agent}] (a) 192.0.2.9->/x")
        for agent in ("001", "002", "003", "001", "001")
    ]
    assert found == [100590, 100590, 100592, 100590, 100591]
