"""manager.md 2.2 to 2.6 and 3: conversion, selection, masking."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.config.as_json import JsonObject, convert_agent, convert_main, mask_secrets, select
from secmon.config.xml import parse_xml
from tests.config import example


def converted(sections: str, *, complete: bool = False) -> JsonObject:
    document = parse_xml(f"<ossec_config>{sections}</ossec_config>", "test")
    return convert_main(document, complete=complete)


def test_worked_example() -> None:
    document = parse_xml(example.XML, "test")
    expected = json.loads(example.JSON)
    assert convert_main(document, complete=False) == expected
    assert list(convert_main(document, complete=False)) == list(expected)
    assert convert_main(document) == expected | {"logging": [{"log_format": "plain"}]}


QUERY = "Event/System[EventID != 4663 and Level &lt; 3]"


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<global></global>", {"global": {}}),
        ("<ALERTS><Email_Alert_Level>9</Email_Alert_Level></ALERTS>", {"alerts": {"email_alert_level": "9"}}),
        ("<command><name> x </name><executable/></command>", {"command": [{"name": " x "}]}),
        ("<command><name>a &lt; b</name></command>", {"command": [{"name": "a &lt; b"}]}),
        ("<command><name>a < b & c</name></command>", {"command": [{"name": "a < b & c"}]}),
        ("<command><name>C:\\dir\\x</name></command>", {"command": [{"name": "C:\\dir\\x"}]}),
        (
            "<integration><hook_url>https://h/z?a=1&b=2</hook_url></integration>",
            {"integration": [{"hook_url": "https://h/z?a=1&b=2"}]},
        ),
        ("<cluster><name>a</name></cluster><cluster><name>b</name></cluster>", {"cluster": {"name": "b"}}),
        (
            "<sca><policies><policy>a</policy></policies></sca><sca><policies><policy>b</policy></policies></sca>",
            {"sca": {"policies": ["a", "b"]}},
        ),
        (
            '<wodle name="osquery"><pack name="p">/a.conf</pack></wodle>',
            {"osquery": {"pack": [{"name": "p", "item": "/a.conf"}]}},
        ),
        (
            '<wodle name="open-scap"><content type="xccdf" path="s.xml"><profile>p1</profile></content></wodle>',
            {"open-scap": {"content": [{"type": "xccdf", "path": "s.xml", "profiles": [None, "p1"]}]}},
        ),
        ("<rootcheck><system_audit>x</system_audit></rootcheck>", {"rootcheck": {"system_audit": ["x"]}}),
        (f"<localfile><query>\n {QUERY}\n </query></localfile>", {"localfile": [{"query": QUERY}]}),
        (
            r"<localfile><query>Level \< 3 and ID \>= 5 and Path = 'C:\x'</query></localfile>",
            {"localfile": [{"query": r"Level &lt; 3 and ID &gt;= 5 and Path = 'C:\x'"}]},
        ),
        (
            "<localfile><query>\n<QueryList>\n <Select Path='S'>Level < 3</Select>\n</QueryList></query></localfile>",
            {"localfile": [{"query": '<QueryList><Select Path="S">Level &lt; 3</Select></QueryList>'}]},
        ),
        (
            '<localfile><query type="trace" level="info">x</query></localfile>',
            {"localfile": [{"query": {"type": "trace", "level": "info", "item": "x"}}]},
        ),
        ('<wodle name="aws-s3"><disabled>no</disabled></wodle>', {}),
        (
            '<localfile><ignore type="pcre2"/></localfile>',
            {"localfile": [{"ignore": [{"type": "pcre2", "item": None}]}]},
        ),
    ],
)
def test_vectors(xml: str, expected: object) -> None:
    assert converted(xml) == expected


def test_unknown_sections_lose_nothing_in_the_complete_form() -> None:
    xml = '<socket><name>a</name><name>b</name><name>c</name></socket><socket/><wodle name="aws-s3"><x/></wodle>'
    assert converted(xml, complete=True) == {"socket": [{"name": ["a", "b", "c"]}, {}], "aws-s3": [{}]}


def test_wodle_without_name() -> None:
    with pytest.raises(SecmonError, match="line 1") as raised:
        converted("<wodle><tag>x</tag></wodle>")
    assert raised.value.code == 1101


def test_other_roots_are_ignored() -> None:
    document = parse_xml("<other><global><logall>yes</logall></global></other><ossec_config/>", "test")
    assert convert_main(document) == {}


def test_agent_conf() -> None:
    localfile = "<localfile><location>{}</location></localfile>"
    xml = (
        f"<agent_config>{localfile.format('a')}</agent_config>"
        f'<agent_config os="Linux">{localfile.format("b")}</agent_config>'
        f'<agent_config os="Linux">{localfile.format("c")}</agent_config>'
    )
    assert convert_agent(parse_xml(xml, "agent.conf")) == [
        {"filters": {}, "config": {"localfile": [{"location": "a"}]}},
        {"filters": {"os": "Linux"}, "config": {"localfile": [{"location": "b"}, {"location": "c"}]}},
    ]


EXAMPLE = convert_main(parse_xml(example.XML, "test"))


def test_select_a_section() -> None:
    assert select(EXAMPLE) is EXAMPLE
    assert select(EXAMPLE, None, "logall") is EXAMPLE
    assert select(EXAMPLE, "global") == {"global": EXAMPLE["global"]}
    assert select(EXAMPLE, "global", "logall") == {"global": {"logall": "yes"}}
    assert select(EXAMPLE, "remote", "connection") == {"remote": [{"connection": "secure"}, {"connection": "syslog"}]}


@pytest.mark.parametrize(
    ("section", "field", "code"),
    [
        ("logging", None, 1102),
        ("bogus", None, 1102),
        ("osquery", None, 1106),
        ("remote", "allowed-ips", 1103),
        ("global", "nothing", 1103),
    ],
)
def test_select_errors(section: str, field: str | None, code: int) -> None:
    with pytest.raises(SecmonError) as raised:
        select(EXAMPLE, section, field)
    assert raised.value.code == code


def test_secrets_are_masked_and_the_rest_is_unchanged() -> None:
    config = converted(
        "<cluster><key>abc</key><name>n</name></cluster>"
        "<integration><api_key>k</api_key><name>v</name></integration>"
        '<labels><label key="rack">b7</label></labels>'
        "<office365><api_auth><client_secret>s</client_secret><tenant_id>t</tenant_id></api_auth></office365>"
        '<wodle name="aws-s3"><bucket type="x"><secret_key>s</secret_key></bucket></wodle>',
        complete=True,
    )
    before = json.dumps(config)
    assert mask_secrets(config) == {
        "cluster": {"key": "*****", "name": "n"},
        "integration": [{"api_key": "*****", "name": "v"}],
        "labels": [{"label": [{"value": "b7", "key": "rack"}]}],
        "office365": [{"api_auth": {"client_secret": "*****", "tenant_id": ["t"]}}],
        "aws-s3": [{"bucket": {"type": "x", "secret_key": "*****"}}],
    }
    assert json.dumps(config) == before


@pytest.mark.parametrize(
    "xml",
    [
        f"<localfile><query>{' ' * 1_000_000}x</query></localfile>",
        "<remote/>" * 100_000,
        "<socket/>" * 100_000,
        f"<x>{'<a>b</a>' * 100_000}</x>",
        f"<syscheck>{'<ignore>b</ignore>' * 50_000}</syscheck>",
        f"<global><limits>{'<a>b</a>' * 100_000}</limits></global>",
        "<rootcheck><system_audit>x</system_audit></rootcheck>" * 15_000,
    ],
)
def test_repetition_does_not_take_quadratic_time(xml: str) -> None:
    assert len(converted(xml, complete=True)) == 1


NAMES = st.from_regex(r"[a-z][a-z_-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="<>&]￾￿"), min_size=1)


@settings(max_examples=100)
@given(st.lists(st.tuples(NAMES, TEXTS), max_size=5, unique_by=lambda pair: pair[0]))
def test_plain_options_come_back_as_written(options: list[tuple[str, str]]) -> None:
    xml = "".join(f"<{name}>{text}</{name}>" for name, text in options)
    assert converted(f"<alerts>{xml}</alerts>") == {"alerts": dict(options)}


@settings(max_examples=100)
@given(st.lists(NAMES, max_size=6))
def test_sections_that_repeat_keep_their_number_and_order(names: list[str]) -> None:
    xml = "".join(f"<command><name>{name}</name></command>" for name in names)
    expected = {"command": [{"name": name} for name in names]} if names else {}
    assert converted(xml) == expected
