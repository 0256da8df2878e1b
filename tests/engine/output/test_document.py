"""Objects and texts of events (ruleset.md 9.1 to 9.3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.engine import Verdict
from secmon.engine.event import Event
from secmon.engine.output.document import Documents, Labels, Origin, encode, mitre_of, split_groups
from secmon.engine.output.text_records import alert_record, archive_line, complete, custom_record, firewall_line
from secmon.engine.rules.rule import Mitre, Rule
from secmon.knowledge.attack.knowledge_base import AttackTechnique
from tests.engine.rules_kit import LOCATION, START, Bench, ruleset

VAULT = r"""<decoder name="vault"><program_name>^vaultd$</program_name></decoder>
<decoder name="vault-open"><parent>vault</parent><prematch>^OPEN </prematch>
<regex offset="after_prematch">^(\S+) by (\S+) from (\S+)</regex><order>box, dstuser, srcip</order></decoder>"""
RULES = """<group name="vault,"><rule id="100101" level="5"><decoded_as>vault</decoded_as>
<description>box $(box) opened by $(dstuser) at $(srcip) on $(hostname)</description><group>access,pci_dss_10.2.5,</group>
</rule></group>"""
LOG = "Nov 14 22:13:20 hq vaultd[9]: OPEN B7 by ana from 192.0.2.4"
ORIGIN = Origin("mgr.example", ("secmon", "master-node"))


def vault(log: str = LOG, location: str = LOCATION) -> Verdict:
    return Bench(ruleset(VAULT, RULES)).run(log, 0.412, location)


def decoded(text: str) -> dict[str, Any]:
    """The data of a log that is a JSON object."""
    compiled = ruleset(
        '<decoder name="json"><prematch>^{</prematch><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>', ""
    )
    made = Documents(ORIGIN).of(Bench(compiled).run(text), "1.2")
    data = json.loads(encode(made)).get("data", {})
    assert isinstance(data, dict)
    return data


def test_the_example_of_the_reference() -> None:
    made = encode(Documents(ORIGIN).of(vault(), "1700000000.5120"))
    assert made.decode() == (
        '{"timestamp":"2023-11-14T22:13:20.412+0000","rule":{"level":5,"description":"box B7 opened by ana at 192.0.2.4'
        ' on hq","id":"100101","firedtimes":1,"mail":false,"groups":["vault","access"],"pci_dss":["10.2.5"]},'
        '"agent":{"id":"000","name":"mgr.example"},"manager":{"name":"mgr.example"},"id":"1700000000.5120",'
        '"cluster":{"name":"secmon","node":"master-node"},"full_log":"Nov 14 22:13:20 hq vaultd[9]: OPEN B7 by ana from'
        ' 192.0.2.4","predecoder":{"program_name":"vaultd","timestamp":"Nov 14 22:13:20","hostname":"hq"},'
        '"decoder":{"parent":"vault","name":"vault"},"data":{"srcip":"192.0.2.4","dstuser":"ana","box":"B7"},'
        '"location":"/var/log/demo.log"}'
    )


def test_events_of_agents() -> None:
    verdict = vault(location="[012] (web) 198.51.100.7->/var/log/a>b")
    documents = Documents(Origin("mgr"))
    made = documents.of(verdict, "1.0")
    assert made["agent"] == {"id": "012", "name": "web", "ip": "198.51.100.7"}
    assert made["location"] == "/var/log/a>b"
    assert "cluster" not in made
    labels = Labels("10.0.0.9", [("site.room", "b"), ("site.floor", "2"), ("Site.Room", "c")])
    assert documents.of(verdict, "1.0", labels=labels)["agent"] == {
        "id": "012",
        "name": "web",
        "ip": "10.0.0.9",
        "labels": {"site": {"room": "b", "floor": "2"}},
    }
    anywhere = vault(location="[012] (web) any->x")
    assert documents.of(anywhere, "1.0")["agent"] == {"id": "012", "name": "web"}


def test_agentless_hosts_take_the_place_of_the_agent() -> None:
    made = Documents(ORIGIN).of(vault(location="(ssh_pixconfig) admin@fw1->agentless"), "1.0")
    assert "agent" not in made
    assert made["agentless"] == {"script": "ssh_pixconfig", "user": "admin", "host": "fw1"}
    assert made["location"] == "(ssh_pixconfig) admin@fw1->agentless"


def test_what_nothing_is_known_of() -> None:
    made = Documents(ORIGIN).of(Bench(ruleset(VAULT, RULES)).run("plain text"), "1.0", full_log=True)
    assert list(made) == ["timestamp", "agent", "manager", "id", "cluster", "full_log", "decoder", "location"]
    assert made["decoder"] == {}


def test_data_nests_and_the_first_of_a_name_stays() -> None:
    assert decoded('{"a":{"b":"1","c":2},"A":{"B":"3","d":true},"e":"","srcip":"192.0.2.1"}') == {
        "srcip": "192.0.2.1",
        "a": {"b": "1", "c": "2", "d": "true"},
    }
    assert decoded('{"x":"1","x.y":"2","z.w":"3","z":"4"}') == {"x": "1", "z": {"w": "3"}}


def test_arrays_are_arrays_when_they_are_whole() -> None:
    assert decoded('{"a":[1,{"b":"c"}],"n":"[1] and more","big":[12345678901234567890123]}') == {
        "a": [1, {"b": "c"}],
        "n": "[1] and more",
        "big": [12345678901234567890123],
    }


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_whatever_bytes_come_the_line_is_one_line_of_json(log: bytes) -> None:
    event = Event("1", b"/var/log/x", log, log, START, 0)
    event.static["data"] = log
    event.add_dynamic("some.field", log)
    event.decoder = None
    line = encode(Documents(ORIGIN).of(Verdict(event, None, alert=False), "1.0"))
    assert b"\n" not in line
    made = json.loads(line)
    expected = log.decode("utf-8", "backslashreplace")
    assert made["full_log"] == expected
    if not log.startswith(b"["):
        assert made["data"]["data"] == expected


def test_groups_and_requirements() -> None:
    plain, compliance = split_groups(b"a,pci_dss_1,,b ,gdpr_IV_35.7.d,pci_dss_2,nist_800_53_AU.14")
    assert plain == ["a", "b "]
    assert list(compliance.items()) == [
        ("pci_dss", ["1", "2"]),
        ("gdpr", ["IV_35.7.d"]),
        ("nist_800_53", ["AU.14"]),
    ]


class Known:
    """Two techniques."""

    generation = 1

    def technique(self, external_id: str) -> AttackTechnique | None:
        return {
            "T1110": AttackTechnique("Brute Force", {"TA0006": "Credential Access"}),
            "T1078": AttackTechnique("Valid Accounts", {"TA0001": "Initial Access", "TA0003": "Persistence"}),
        }.get(external_id)


def referring(*references: Mitre) -> Rule:
    return Rule(1, 3, "f", 1, mitre=references)


def test_references_to_techniques() -> None:
    known = Known()
    assert mitre_of(referring(), known) is None
    assert mitre_of(referring(Mitre("T1110"), Mitre("T1110")), None) == {"id": ["T1110"]}
    assert mitre_of(referring(Mitre("T1110"), Mitre("T9999")), known) == {
        "id": ["T1110", "T9999"],
        "tactic": ["Credential Access"],
        "technique": ["Brute Force"],
    }
    assert mitre_of(referring(Mitre("T9999")), known) is None
    assert mitre_of(referring(Mitre("T1078", "TA0003"), Mitre("T1110", "TA0001")), known) == {
        "id": ["T1078"],
        "tactic": ["Persistence"],
        "technique": ["Valid Accounts"],
    }


def test_text_of_an_alert() -> None:
    assert alert_record(vault(), "1700000000.0").decode() == (
        "** Alert 1700000000.0: - vault,access,pci_dss_10.2.5,\n"
        "2023 Nov 14 22:13:20 hq->/var/log/demo.log\n"
        "Rule: 100101 (level 5) -> 'box B7 opened by ana at 192.0.2.4 on hq'\n"
        "Src IP: 192.0.2.4\nUser: ana\n"
        f"{LOG}\nbox: B7\n\n"
    )
    agent = alert_record(vault(location="[012] (web) any->/var/log/x"), "1.0", Labels(None, [("site", "b")]))
    assert agent.split(b"\n")[1:3] == [b"2023 Nov 14 22:13:20 (web) any->/var/log/x", b"site: b"]
    verdict = vault()
    verdict.rule.mail = True  # type: ignore[union-attr]
    assert alert_record(verdict, "1.0").startswith(b"** Alert 1.0: mail  - vault")
    assert custom_record("$RULEID/$RULELEVEL $SRCIP $DSTUSER $FTELL", verdict, "1.77") == b"100101/5 192.0.2.4 ana 77\n"


def test_text_of_archives_and_firewalls() -> None:
    event = vault().event
    assert archive_line(event) == f"2023 Nov 14 22:13:20 hq->/var/log/demo.log {LOG}\n".encode()
    assert not complete(event)
    event.static |= {"action": b"Reject", "dstip": b"192.0.2.9", "srcport": b"5", "dstport": b"6", "protocol": b"TCP"}
    assert complete(event)
    assert firewall_line(event) == (b"2023 Nov 14 22:13:20 hq->/var/log/demo.log DROP TCP 192.0.2.4:5->192.0.2.9:6\n")


FORGED = "x\n\n** Alert 1.1: - forged,\n2023 Nov 14 22:13:20 hq->/x\nRule: 1 (level 15) -> 'forged'\n"


def test_no_text_of_an_event_ends_its_record() -> None:
    """Neither a log of several lines nor a value with line ends looks like another alert or another line."""
    verdict = vault(location=f"/x{FORGED}")
    event = verdict.event
    event.full_log = event.log = FORGED.encode()
    event.static |= dict.fromkeys(("srcip", "dstuser", "action", "dstip", "srcport", "dstport"), FORGED.encode())
    event.static["protocol"] = FORGED.encode()
    event.add_dynamic("box", FORGED.encode())
    event.previous = [FORGED.encode(), b"\r", b""]
    record = alert_record(verdict, "1.0").decode()
    assert record.endswith("\n\n")
    lines = record[:-2].split("\n")
    assert "" not in lines
    assert [line for line in lines if line.startswith("** Alert")] == [lines[0]]
    assert len([line for line in lines if line.startswith(("Src IP", "User"))]) == 2
    assert [line for line in archive_line(event).split(b"\n")[1:-1] if not line.startswith(b" ")] == []
    assert firewall_line(event).count(b"\n") == custom_record("$FULLLOG $SRCIP", verdict, "1.0").count(b"\n") == 1


def test_previous_events_are_shown_from_two_on(tmp_path: Path) -> None:
    verdict = vault()
    verdict.event.previous = [b"one"]
    assert "previous_output" not in Documents(ORIGIN).of(verdict, "1.0")
    verdict.event.previous = [b"one", b"two"]
    assert Documents(ORIGIN).of(verdict, "1.0")["previous_output"] == "one\ntwo"


RULE_FIELDS = ("level", "mitre", "cve", "info", "firedtimes", "frequency", "mail", "groups", "id", "description")
TOKENS = " ".join(f"{{{name}: x, y}}" for name in (*RULE_FIELDS, "MITRE", "CIS"))


@pytest.mark.parametrize("level", [0, 7])
def test_a_rootcheck_log_adds_requirements_and_sets_no_field_of_the_rule(level: int) -> None:
    rules = ruleset(
        '<decoder name="rc"><prematch>^rc </prematch></decoder>',
        f'<group name="rootcheck,"><rule id="100001" level="{level}"><decoded_as>rc</decoded_as><options>no_counter</options><description>d</description></rule></group>',
    )
    rule = Documents(ORIGIN).of(Bench(rules).run(f"rc {TOKENS}"), "1.0")["rule"]
    own = {"description": "d", "id": "100001", "mail": level >= 7, "groups": ["rootcheck"]}
    assert rule == ({"level": level} if level else {}) | own | {"cis": ["x", "y"]}


def test_an_assessment_adds_requirements_and_sets_no_field_of_the_rule() -> None:
    rules = ruleset(
        '<decoder name="json"><prematch>^{</prematch><plugin_decoder>JSON_Decoder</plugin_decoder></decoder>',
        '<group name="sca,"><rule id="100001" level="3"><decoded_as>json</decoded_as><description>d</description></rule></group>',
    )
    compliance = dict.fromkeys((*RULE_FIELDS, "cis", "hipaa"), "1.1,2")
    log = json.dumps({"sca": {"check": {"compliance": compliance}}})
    rule = Documents(ORIGIN).of(Bench(rules).run(log), "1.0")["rule"]
    assert (rule["cis"], rule["hipaa"]) == (["1.1", "2"], ["1.1", "2"])
    assert set(rule) == {"level", "description", "id", "firedtimes", "mail", "groups", "cis", "hipaa"}
    assert (rule["level"], rule["firedtimes"], rule["mail"]) == (3, 1, False)
