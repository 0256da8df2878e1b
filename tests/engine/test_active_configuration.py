"""The engine's active configuration (manager.md 7.4)."""

from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.engine.active_configuration import active_config
from secmon.engine.logtest.logtest_sessions import SessionSettings
from secmon.engine.output.outputs import OutputSettings
from tests.engine.rules_kit import below, nodes

CONFIG = """<ossec_config><global><white_list>192.0.2.1</white_list><white_list>^web$</white_list><logall>yes</logall>
<limits><eps><maximum>50</maximum><timeframe>5</timeframe></eps></limits></global>
<command><name>block</name><executable>block.sh</executable><timeout_allowed>yes</timeout_allowed></command>
<active-response><command>block</command><location>local</location><level>7</level><timeout>60</timeout>
</active-response></ossec_config>"""


def test_sections() -> None:
    config, options = parse_main_config(CONFIG), InternalOptions.defaults()
    compiled = nodes(
        below(100301, 5, "<action>a</action>", 'ignore="60"'),
        '<rule id="100302" level="10" frequency="4" timeframe="300"><if_matched_sid>100301</if_matched_sid>'
        "<same_srcip/><description>four</description></rule>",
    )
    made = active_config(config, options, OutputSettings.of(config, options), SessionSettings(), compiled)
    assert list(made) == [
        "global",
        "active_response",
        "alerts",
        "command",
        "rule_test",
        "internal",
        "rules",
        "decoders",
        "labels",
        "logcollector/localfile",
        "logcollector/socket",
        "logcollector/internal",
    ]
    assert made["global"]["white_list"] == ["192.0.2.1", "^web$"]
    assert made["global"]["eps"] == {"maximum": 50, "timeframe": 5}
    assert (made["global"]["logall"], made["global"]["alerts_log"]) == ("yes", "yes")
    assert made["command"] == [{"name": "block", "executable": "block.sh", "timeout_allowed": 1}]
    assert made["active_response"] == [{"command": "block", "timeout": 60, "level": 7, "location": "REMOTE_AGENT"}]
    assert made["alerts"] == {"email_alert_level": 7, "log_alert_level": 1}
    assert made["internal"]["analysisd"]["decoder_order_size"] == 256
    decoder = made["decoders"][0]
    assert (decoder["name"], decoder["type"], decoder["accumulate"]) == ("node", "syslog", "no")
    assert decoder["children"][0]["order"] == ["action", "url", "dstuser", "srcip", "id"]
    found = {rule["sigid"]: rule for rule in flat(made["rules"])}
    assert found[100301]["ignore_time"] == 60
    composite = found[100302]
    assert (composite["frequency"], composite["timeframe"], composite["if_matched_sid"]) == (4, 300, 100301)
    assert composite["same_srcip"] == ""


def flat(rules: list[dict[str, object]]) -> list[dict[str, object]]:
    found = []
    for rule in rules:
        children = rule.get("children", [])
        assert isinstance(children, list)
        found += [rule, *flat(children)]
    return found
