"""The worked examples of decoders (ruleset.md 13)."""

import pytest

from tests.engine.decoders.kit import HEADER as H
from tests.engine.decoders.kit import decoded, fields

VAULT = r"""
<decoder name="vault"><program_name>^vaultd</program_name></decoder>
<decoder name="vault-open"><parent>vault</parent><prematch>^OPEN </prematch>
  <regex offset="after_prematch">^(\S+) by (\S+) from (\d+.\d+.\d+.\d+)</regex><order>box, user, srcip</order></decoder>
<decoder name="vault-misc"><parent>vault</parent><regex>^(\w+) code (\d+)</regex><order>action, id</order></decoder>
"""
KV = r"""
<decoder name="kv">{program}<prematch>^KV </prematch></decoder>
<decoder name="kv1"><parent>kv</parent><regex offset="after_parent">^(\w+)=(\w+)</regex><order>k,v</order></decoder>
"""
FWX = r"""
<decoder name="fwx"><prematch>^FWX </prematch></decoder>
<decoder name="fwx-f"><parent>fwx</parent><regex>src=(\S+)</regex><order>srcip</order></decoder>
<decoder name="fwx-f"><parent>fwx</parent><regex>dst=(\S+)</regex><order>dstip</order></decoder>
<decoder name="fwx-f"><parent>fwx</parent><regex>zone=(\S+)</regex><order>zone</order></decoder>
"""
AR = r"""
<decoder name="ar"><prematch>^AR </prematch></decoder>
<decoder name="ar-f"><parent>ar</parent><regex offset="after_parent">^id=(\d+) </regex><order>id</order></decoder>
<decoder name="ar-f"><parent>ar</parent><regex offset="after_regex">^u=(\S+)</regex><order>user</order></decoder>
"""
BL = r"""
<decoder name="bl"><prematch>^BL </prematch></decoder>
<decoder name="bl-a"><parent>bl</parent><regex>num=(\d+)</regex><order>num</order></decoder>
<decoder name="bl-b"><parent>bl</parent><prematch>word</prematch><regex>word=(\w+)</regex><order>word</order></decoder>
"""
OWN = r"""
<decoder name="own"><prematch>^OWN</prematch></decoder>
<decoder name="own-x"><parent>own</parent><use_own_name>true</use_own_name><prematch offset="after_parent">^ X</prematch></decoder>
<decoder name="own-y"><parent>own</parent><prematch offset="after_parent">^ Y</prematch></decoder>
"""
ALT = r"""
<decoder name="alt"><prematch>^ALT </prematch></decoder>
<decoder name="alt1"><parent>alt</parent><regex>ip (\S+) user (\S+)|user (\S+)</regex><order>srcip, srcuser</order></decoder>
"""
PCX = r"""
<decoder name="pcx"><prematch type="pcre2">^(?i)pcx:</prematch></decoder>
<decoder name="pcx1"><parent>pcx</parent><regex type="pcre2" offset="after_parent">^\s*(?:u=(\w+))?\s*p=(\d+)</regex>
  <order>srcuser, srcport</order></decoder>
"""
JSON = r'<decoder name="js"><prematch>^{\s*"</prematch><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>'
PJ = r"""
<decoder name="pj"><prematch>^PJ: </prematch><plugin_decoder offset="after_prematch">JSON_Decoder</plugin_decoder>
<json_null_field>discard</json_null_field><json_array_structure>csv</json_array_structure></decoder>
"""
CJ = r"""
<decoder name="cj"><prematch>^CJ: </prematch></decoder>
<decoder name="cj1"><parent>cj</parent><plugin_decoder offset="after_parent">JSON_Decoder</plugin_decoder></decoder>
"""
PREFIXED = """
<decoder name="px"><prematch>"of":"all"</prematch><plugin_decoder>JSON_Decoder</plugin_decoder>
<json_prefix>app.</json_prefix></decoder>
<decoder name="py"><prematch>"of":"part"</prematch><plugin_decoder>JSON_Decoder</plugin_decoder>
<json_prefix from="in.">app.</json_prefix></decoder>
"""
DUAL = r"""
<decoder name="dual"><program_name>^dual</program_name></decoder>
<decoder name="dual"><prematch>^dual: </prematch></decoder>
<decoder name="dual1"><parent>dual</parent><regex>k=(\w+)</regex><order>k</order></decoder>
"""
TOK = r"""
<decoder name="tok"><prematch>^tok=\S+</prematch><regex offset="after_prematch">(\.+)</regex><order>rest</order></decoder>
<decoder name="tik"><prematch>^tik=(\S+)</prematch><regex offset="after_prematch">(\.+)</regex><order>rest</order></decoder>
"""
SYS = '<decoder name="aa"><prematch>^sys</prematch></decoder><decoder name="bb"><prematch>^sys x</prematch></decoder>'
GN = r"""
<decoder name="gn"><prematch>^GN </prematch></decoder>
<decoder name="gn-1"><parent>gn</parent><prematch>A</prematch><regex>A=(\d)</regex><order>a</order></decoder>
<decoder name="gn-1"><parent>gn</parent><regex>B=(\d)</regex><order>b</order></decoder>
<decoder name="gn-2"><parent>gn</parent><prematch>C</prematch><regex>C=(\d)</regex><order>c</order></decoder>
"""
EG = r'<decoder name="eg"><prematch>^EG </prematch><regex>(\d+) (\w+) (\w+)</regex><order>one, two</order></decoder>'
REP = r"""
<decoder name="rp"><prematch>^RP </prematch></decoder>
<decoder name="rp-1"><parent>rp</parent><regex>k=(\d)</regex><order>k</order></decoder>
<decoder name="rp-1"><parent>rp</parent><regex>l=(\d)</regex><order>K</order></decoder>
<decoder name="rp-1"><parent>rp</parent><regex>s=(\S)</regex><order>srcip</order></decoder>
<decoder name="rp-1"><parent>rp</parent><regex>t=(\S)</regex><order>srcip</order></decoder>
"""
LONG = (
    '{"srcip":"192.0.2.1","evt":{"kind":"login","n":12,"big":3000000000,"f":1.5,"ok":true,"nil":null,"tags":["a","b"],'
    '"objs":[{"k":1}]},"user":"zoe","dstuser":"amy","system_name":"s1","systemname":"s2","id":77}'
)
LONG_FIELDS = {
    "srcip": "192.0.2.1", "dstuser": "amy", "system_name": "s2", "id": "77", "{evt.kind}": "login", "{evt.n}": "12",
    "{evt.big}": "3000000000.000000", "{evt.f}": "1.500000", "{evt.ok}": "true", "{evt.nil}": "null",
    "{evt.tags}": '["a", "b"]', "{evt.objs}": '[{\n\t\t"k":\t1\n\t}]', "{user}": "zoe", "{system_name}": "s1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("xml", "log", "decoder", "parent", "expected"),
    [
        (
            VAULT,
            f"{H}vaultd[9]: OPEN B7 by ana from 192.0.2.4",
            "vault",
            "vault",
            {"dstuser": "ana", "srcip": "192.0.2.4", "{box}": "B7"},
        ),
        (VAULT, f"{H}vaultd[9]: CLOSE code 77", "vault", None, {"action": "CLOSE", "id": "77"}),
        (VAULT, f"{H}vaultd[9]: nothing", "vault", None, {}),
        (KV.format(program=""), "KV a=b", "kv", None, {"{k}": "a", "{v}": "b"}),
        (KV.format(program=""), f"{H}app: KV a=b", None, None, {}),
        (KV.format(program="<program_name></program_name>"), f"{H}app: KV a=b", "kv", None, {"{k}": "a", "{v}": "b"}),
        (KV.format(program="<program_name></program_name>"), "KV a=b", None, None, {}),
        (
            FWX,
            "FWX zone=dmz src=192.0.2.1 dst=192.0.2.2",
            "fwx",
            None,
            {"srcip": "192.0.2.1", "dstip": "192.0.2.2", "{zone}": "dmz"},
        ),
        (FWX, "FWX dst=192.0.2.2", "fwx", None, {"dstip": "192.0.2.2"}),
        (AR, "AR id=55 u=bob", "ar", None, {"id": "55", "dstuser": "bob"}),
        (AR, "AR id=55  u=bob", "ar", None, {"id": "55"}),
        (BL, "BL num=4", "bl", None, {"{num}": "4"}),
        (BL, "BL word=q", "bl", None, {}),
        (OWN, "OWN X", "own-x", "own", {}),
        (OWN, "OWN Y", "own", "own", {}),
        (OWN, "OWN Z", "own", None, {}),
        (ALT, "ALT ip 192.0.2.1 user bob", "alt", None, {"srcip": "192.0.2.1", "srcuser": "bob"}),
        (ALT, "ALT user eve", "alt", None, {"srcip": "eve"}),
        (PCX, "PCX: u=jo p=8080", "pcx", None, {"srcuser": "jo", "srcport": "8080"}),
        (PCX, "pcx: p=8080", "pcx", None, {"srcuser": "", "srcport": "8080"}),
        (JSON, LONG, "js", None, LONG_FIELDS),
        (JSON, f"{H}app: {LONG}", None, None, {}),
        (
            PJ,
            'PJ: {"a":[1,"x",true,null,2.5],"b":null,"c":{"d":"e"}} trailing',
            "pj",
            None,
            {"{a}": "1,x,true,null,2.500000", "{c.d}": "e"},
        ),
        (CJ, 'CJ: {"a":1}', "cj", None, {}),
        (
            PREFIXED,
            '{"of":"all","id":7,"in":{"id":8}}',
            "px",
            None,
            {"{app.of}": "all", "{app.id}": "7", "{app.in.id}": "8"},
        ),
        (PREFIXED, '{"of":"part","id":7,"in":{"id":8}}', "py", None, {"{of}": "part", "id": "7", "{app.id}": "8"}),
        (DUAL, "Nov 14 22:13:20 h dual: k=1", "dual", None, {"{k}": "1"}),
        (DUAL, "dual: k=2", "dual", None, {"{k}": "2"}),
        (TOK, "tok=abc def", "tok", None, {"{rest}": "def"}),
        (TOK, "tik=abc def", "tik", None, {"{rest}": "bc def"}),
        (SYS, "sys x", "aa", None, {}),
        (GN, "GN A=1 B=2", "gn", "gn", {"{a}": "1", "{b}": "2"}),
        (GN, "GN C=3 B=2", "gn", "gn", {"{c}": "3"}),
        (GN, "GN B=2", "gn", None, {}),
        (EG, "EG 1 b c", "eg", None, {"{one}": "1", "{two}": "b"}),
        (REP, "RP k=1 l=2 s=a t=b", "rp", None, {"srcip": "b", "{k}": "1", "{K}": "2"}),
    ],
)
def test_worked_examples(xml: str, log: str, decoder: str | None, parent: str | None, expected: dict[str, str]) -> None:
    event = decoded(xml, log)
    assert (event.decoder.name if event.decoder else None, event.parent) == (decoder, parent)
    assert fields(event) == expected


def test_a_repeated_name_is_looked_up_as_its_first() -> None:
    assert decoded(REP, "RP k=1 l=2").dynamic_value("k") == b"1"


def test_the_type_of_the_winner_selects_the_tree() -> None:
    edge = r"""<decoder name="edge"><type>firewall</type><program_name>^edge$</program_name>
      <regex>^(\w+) (\S+):(\d+) (\S+):(\d+) (\w+)</regex><order>action,srcip,srcport,dstip,dstport,protocol</order></decoder>"""
    event = decoded(edge, "Nov 14 22:13:20 gw edge: DROP 192.0.2.1:55 198.51.100.2:22 tcp")
    assert (event.category, event.static["action"], event.static["protocol"]) == ("firewall", b"DROP", b"tcp")
