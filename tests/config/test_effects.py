"""What has no effect is said: in every section and option of the tables, and of a configuration of other managers."""

import re

import pytest

from secmon.config.as_json import SECTIONS as CONVERTED
from secmon.config.effects import LINE_FORMATS, OPTIONS, SECTIONS
from secmon.config.main import check_main_config, main_config_template
from secmon.config.validation import OPTIONS as CHECKED
from secmon.config.validation import OTHER_SECTIONS, WODLES
from tests.config import stock

EFFECTIVE = frozenset(
    {"global", "alerts", "remote", "auth", "logging", "localfile", "ruleset", "rule_test", "cluster"}
    | {"agent-upgrade", "task-manager", "vulnerability-detection", "vulnerability-detector"}
    | {"silent_sources", "syslog_output", "integration", "email_alerts", "indexer", "command", "active-response"}
)
"""Sections of which this version does something."""


def warnings(xml: str) -> list[str]:
    """Section and option of each warning about something without an effect."""
    report = check_main_config(f"<ossec_config>{xml}</ossec_config>")
    found = (
        re.match(r"ossec.conf:\d+: ([\w -]+): (?:([\w-]+) has no effect in|no effect)", one) for one in report.warnings
    )
    return [f"{one[1]}.{one[2]}" if one[2] else one[1] for one in found if one]


def test_a_stock_configuration_is_usable_and_says_what_does_nothing() -> None:
    report = check_main_config(stock.XML)
    assert report.problems == []
    assert all(re.match(r"ossec.conf:\d+: ", one) for one in report.warnings)
    found = [one.split(": ", 1)[1].split(": ")[0] for one in report.warnings]
    assert found == [
        "global", "rootcheck", "syscollector", "sca", "vulnerability-detection", "vulnerability-detection",
        "indexer", "syscheck",
        "localfile",
    ]  # fmt: skip
    assert "update_check" in report.warnings[0]


def test_our_own_template_has_an_effect() -> None:
    assert check_main_config(main_config_template(None)).warnings == []


def test_every_section_is_known_to_do_something_or_nothing() -> None:
    every = {*CONVERTED, *OTHER_SECTIONS, *WODLES} | {"wodle command"}
    assert every - EFFECTIVE == set(SECTIONS) - EFFECTIVE
    assert EFFECTIVE.isdisjoint(SECTIONS)
    assert set(OPTIONS) <= EFFECTIVE
    for section in OPTIONS.keys() & CHECKED.keys():
        assert set(OPTIONS[section]) <= set(CHECKED[section]), section


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_sections_without_an_effect(name: str) -> None:
    module = name.removeprefix("wodle ")
    section = f'<wodle name="{module}">{{}}</wodle>' if module != name else f"<{module}>{{}}</{module}>"
    assert warnings(section.format("") * 2) == [name], "once"
    for off in ("<disabled>yes</disabled>", "<enabled>no</enabled>"):
        assert warnings(section.format(off)) == []
        assert warnings(section.format(off) + section.format("")) == [name]


@pytest.mark.parametrize(
    ("xml", "found"),
    [
        ("<indexer><hosts><host>https://x:9200</host></hosts></indexer>", ["indexer.hosts"]),
        ("<indexer><alerts>yes</alerts><hosts><host>https://x:9200</host></hosts></indexer>", []),
        ("<global><email_notification>no</email_notification><email_to>a@b</email_to></global>", []),
        ("<global><geoipdb>/x</geoipdb></global>", ["global.geoipdb"]),
        ("<global><geoipdb>/x</geoipdb></global><global><geoipdb>/y</geoipdb></global>", ["global.geoipdb"]),
        ("<alerts><use_geoip>no</use_geoip></alerts>", []),
        ("<alerts><use_geoip>yes</use_geoip></alerts>", ["alerts.use_geoip"]),
        (
            "<remote><connection>secure</connection><allowed-ips>192.0.2.1</allowed-ips></remote>",
            ["remote.allowed-ips"],
        ),
        ("<remote><connection>syslog</connection><allowed-ips>192.0.2.1</allowed-ips></remote>", []),
        ("<localfile><log_format>eventlog</log_format><location>x</location></localfile>", ["localfile.log_format"]),
        (
            "<localfile><log_format>json</log_format><location>x</location><ignore>a</ignore></localfile>",
            ["localfile.ignore"],
        ),
        ('<wodle name="command"><command>x</command></wodle>', ["wodle command"]),
        (
            "<vulnerability-detection><index-status>no</index-status><cti-url>x</cti-url></vulnerability-detection>",
            ["vulnerability-detection.cti-url"],
        ),
        (
            "<vulnerability-detector><interval>5m</interval><provider name='canonical'/></vulnerability-detector>",
            ["vulnerability-detector.provider"],
        ),
        ("<agent-upgrade><ca_store>x</ca_store></agent-upgrade>", ["agent-upgrade.ca_store"]),
    ],
)
def test_options_without_an_effect(xml: str, found: list[str]) -> None:
    assert warnings(xml) == found


def test_formats_that_are_read() -> None:
    for name in LINE_FORMATS:
        assert warnings(f"<localfile><log_format>{name}</log_format><location>x</location></localfile>") == []
