"""What agents understand in ``agent.conf``, and how mistakes are named."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.agent_conf import verify_agent_conf

EVERYTHING = (Path(__file__).parent / "agent.conf").read_text()


def faults(text: str) -> list[str]:
    return [str(problem) for problem in verify_agent_conf(text).problems]


def in_block(text: str) -> str:
    return f"<agent_config>\n{text}\n</agent_config>"


def test_what_agents_understand() -> None:
    report = verify_agent_conf(EVERYTHING)
    assert (report.problems, report.warnings) == ([], [])


@pytest.mark.parametrize("text", ["", "<!-- nothing -->", "<agent_config></agent_config>", "<AGENT_CONFIG/>"])
def test_little_is_valid_too(text: str) -> None:
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<syscheck><disable>no</disable></syscheck>", ("2: syscheck.disable: there is no such name", "disabled")),
        ("<syscheck><disabled>maybe</disabled></syscheck>", ("syscheck.disabled: 'maybe' is not allowed", "yes, no")),
        ("<syscheck>\n<frequency>1h</frequency></syscheck>", ("3: syscheck.frequency: '1h'", "a whole number")),
        ("<syscheck><directories foo='1'>/x</directories></syscheck>", ("syscheck.directories.@foo: there is no",)),
        (
            "<syscheck><directories realtime='on'>/x</directories></syscheck>",
            ("directories.@realtime: 'on'", "yes, no"),
        ),
        ("<syscheck><directories recursion_level='321'>/x</directories></syscheck>", ("'321'", "0 to 320")),
        ("<syscheck><directories></directories></syscheck>", ("syscheck.directories: ''", "not empty")),
        ("<syscheck><file_limit><limit>1</limit></file_limit></syscheck>", ("syscheck.file_limit.limit: there is no",)),
        ("<syscheck><disabled><x/></disabled></syscheck>", ("syscheck.disabled: '<x>'",)),
        ("<syscheck><process_priority>-21</process_priority></syscheck>", ("-20 to 19",)),
        ("<syscheck><ignore type='regex'>x</ignore></syscheck>", ("syscheck.ignore.@type: 'regex'", "sregex")),
        ("<syscheck first='1'/>", ("syscheck.@first: there is no such name", "no attributes")),
        ("<rootcheck><check_dev>1</check_dev></rootcheck>", ("rootcheck.check_dev: '1'",)),
        ("<localfile><location>/x</location></localfile>", ("localfile.log_format: missing", "syslog")),
        ("<localfile><log_format>syslog</log_format></localfile>", ("localfile.location: missing", "syslog")),
        ("<localfile><log_format>command</log_format></localfile>", ("localfile.command: missing",)),
        ("<localfile><log_format>Syslog</log_format><location>/x</location></localfile>", ("log_format: 'Syslog'",)),
        ("<localfile><log_format>multi-line:0</log_format><location>/x</location></localfile>", ("'multi-line:0'",)),
        (
            "<localfile><log_format>json</log_format><location>/x</location><label>x</label></localfile>",
            ("label.@key: m",),
        ),
        (
            "<client><server><address>x</address></server></client>",
            ("client.server: there", "force_reconnect_interval"),
        ),
        ("<client_buffer><queue_size>100001</queue_size></client_buffer>", ("queue_size: '100001'", "1 to 100000")),
        ("<client_buffer><events_per_second>0</events_per_second></client_buffer>", ("1 to 1000",)),
        ("<labels><label key=''>x</label></labels>", ("labels.label.@key: ''",)),
        ("<labels><label key='a' hidden='true'>x</label></labels>", ("labels.label.@hidden: 'true'",)),
        ("<wodle><disabled>no</disabled></wodle>", ("wodle.@name: missing", "syscollector")),
        ("<wodle name='sysinfo'/>", ("sysinfo: there is no such name", "syscollector")),
        ("<wodle name='command'><tag>x</tag></wodle>", ("command.command: missing",)),
        ("<wodle name='osquery'><pack>/x</pack></wodle>", ("osquery.pack.@name: missing",)),
        ("<wodle name='open-scap'><content type='x' path='y'/></wodle>", ("content.@type: 'x'", "xccdf, oval")),
        ("<wodle name='syscollector'><interval>1x</interval></wodle>", ("syscollector.interval: '1x'",)),
        ("<sca><day>1</day><wday>monday</wday></sca>", ("sca.wday: 'monday'", "not both")),
        ("<syschek/>", ("2: syschek: there is no such name", "syscheck")),
    ],
)
def test_mistakes_are_named(text: str, parts: tuple[str, ...]) -> None:
    [fault] = faults(in_block(text))
    assert fault.startswith("agent.conf:")
    assert all(part in fault for part in parts), fault


def test_blocks() -> None:
    assert "agent_config.@host: there is no such name" in faults("<agent_config host='x'/>")[0]
    assert "ossec_config: there is no such name" in faults("<ossec_config/>")[0]
    assert "'stray'" in faults("stray <agent_config/>")[0]


def test_all_mistakes_by_line() -> None:
    text = in_block("<rootcheck><a/></rootcheck>\n<syscheck><b/>\n<c/></syscheck>")
    assert [problem.line for problem in verify_agent_conf(text).problems] == [2, 3, 4]


@pytest.mark.parametrize(
    "text", ["<agent_config>", "<agent_config></agent>", "</agent_config>", "<a b=c/>", b"\xff\xfe"]
)
def test_texts_that_are_no_xml(text: str | bytes) -> None:
    [problem] = verify_agent_conf(text).problems
    assert problem.key == "XML"
    assert problem.line


def test_sections_of_a_server_are_passed_over() -> None:
    report = verify_agent_conf(in_block("<global><x/></global>\n<wodle name='key-polling'/>"))
    assert report.problems == []
    assert [warning.split(": ")[0] for warning in report.warnings] == ["agent.conf:2", "agent.conf:3"]


_names = st.sampled_from(
    ["syscheck", "localfile", "wodle", "labels", "label", "directories", "query", "x", "agent_config"]
)
_nested = st.recursive(
    st.text(max_size=5),
    lambda inner: st.builds(
        lambda name, attribute, parts: f"<{name} {attribute}>{''.join(parts)}</{name}>",
        _names,
        st.sampled_from(["", "name='command'", "key=''", "type='x'"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)


@settings(max_examples=150)
@given(_nested)
def test_whatever_is_verified_the_findings_can_be_shown(text: str) -> None:
    report = verify_agent_conf(in_block(text))
    assert all(str(problem) for problem in report.problems)
