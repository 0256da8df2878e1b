"""What uploads may hold."""

from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.config.api import UploadConfiguration, parse_api_config
from secmon.config.as_json import MAIN_ROOT
from secmon.config.upload import check_upload
from secmon.config.xml import Element, parse_xml


def document(*sections: str) -> Element:
    return parse_xml(f"<{MAIN_ROOT}>{''.join(sections)}</{MAIN_ROOT}>", "x")


def switches(text: str) -> UploadConfiguration:
    return parse_api_config(f"upload_configuration: {text}").upload_configuration


def unasked(api_key: str) -> int:
    raise AssertionError(f"asked for {api_key}")


def code_of(new: Element, allowed: UploadConfiguration, saved: Element | None = None, **options: Any) -> int:
    """Code of the error, 0 for none."""
    try:
        check_upload(new, saved, allowed, **{"quota": unasked} | options)
    except SecmonError as error:
        return error.code
    return 0


LOCALFILE = switches("{remote_commands: {localfile: {allow: no, exceptions: ['df -P']}}}")
WODLE = switches("{remote_commands: {wodle_command: {allow: no, exceptions: ['uptime']}}}")
VERSIONS = switches("{agents: {allow_higher_versions: {allow: no}}}")
PUBLIC_KEYS = switches("{integrations: {virustotal: {public_key: {allow: no, minimum_quota: 240}}}}")
INDEXER = switches("{indexer: {allow: no}}")
EPS = switches("{limits: {eps: {allow: no}}}")

COMMAND = "<localfile><log_format>command</log_format><command>id</command></localfile>"
WODLE_COMMAND = "<wodle name='command'><tag>t</tag><command>id</command></wodle>"


def test_everything_is_allowed_by_default() -> None:
    key = "<integration><name>virustotal</name><api_key>k</api_key></integration>"
    eps = "<global><limits><eps><maximum>1</maximum></eps></limits></global>"
    remote = "<remote><agents><allow_higher_versions>yes</allow_higher_versions></agents></remote>"
    assert code_of(document(COMMAND, WODLE_COMMAND, key, eps, remote, "<indexer/>"), UploadConfiguration()) == 0


@pytest.mark.parametrize(
    ("section", "code"),
    [
        (COMMAND, 1124),
        ("<LOCALFILE a='1'>\n<Command b='2'>\n id \n</Command></LOCALFILE>", 1124),
        ("<localfile><command><!-- df -P -->id</command></localfile>", 1124),
        ("<localfile><command>df -P; id</command></localfile>", 1124),
        ("<localfile><command>DF -P</command></localfile>", 1124),
        ("<localfile><command>df -P<b/>; id</command></localfile>", 1124),
        ("<localfile><command>df -P</command><command>id</command></localfile>", 1124),
        ("<localfile><x><command>id</command></x></localfile>", 1124),
        ("<localfile><command> df -P </command></localfile>", 0),
        ("<localfile><location>/var/log/x</location><command/></localfile>", 0),
        (f"<!-- {COMMAND} -->", 0),
        (WODLE_COMMAND, 0),
        ("<localfile></localfile><active-response><command>id</command></active-response><localfile></localfile>", 0),
    ],
)
def test_commands_of_log_collection(section: str, code: int) -> None:
    assert code_of(document(section), LOCALFILE) == code


def test_commands_in_roots_that_are_not_read_do_not_count() -> None:
    assert code_of(parse_xml(f"<other>{COMMAND}</other>", "x"), LOCALFILE) == 0


@pytest.mark.parametrize(
    ("section", "code"),
    [
        (WODLE_COMMAND, 1124),
        ("<wodle  disabled = 'no'\n name = ' Command '><command>id</command></wodle>", 1124),
        ("<wodle name='command'><command>uptime</command></wodle>", 0),
        ("<wodle name='osquery'><command>id</command></wodle>", 0),
        ("<command><name>n</name><executable>id</executable></command>", 0),
        (COMMAND, 0),
    ],
)
def test_commands_of_the_command_module(section: str, code: int) -> None:
    assert code_of(document(section), WODLE) == code


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ("<remote><agents><allow_higher_versions>yes</allow_higher_versions></agents></remote>", 1129),
        ("<auth><agents><allow_higher_versions> yes </allow_higher_versions></agents></auth>", 1129),
        ("<auth><agents><allow_higher_versions>no</allow_higher_versions></agents></auth>", 0),
        ("<global><allow_higher_versions>yes</allow_higher_versions></global>", 0),
        ("<remote><agents><highest_version> 4.15 </highest_version></agents></remote>", 1129),
        ("<remote><agents><highest_version>v5.0</highest_version></agents></remote>", 1129),
        ("<remote><agents><highest_version>4.9</highest_version></agents></remote>", 0),
    ],
)
def test_higher_agent_versions(section: str, code: int) -> None:
    assert code_of(document(section), VERSIONS) == code


@pytest.mark.parametrize(("quota", "code"), [(240, 1130), (1000, 0), (239, 0)])
def test_public_keys_have_the_quota_of_public_keys(quota: int, code: int) -> None:
    asked: list[str] = []

    def answer(api_key: str) -> int:
        asked.append(api_key)
        return quota

    sections = [
        "<integration><name> virustotal </name><api_key> k1 </api_key></integration>",
        "<integration><name>slack</name><api_key>k2</api_key></integration>",
        "<integration><name>virustotal</name></integration>",
    ]
    assert code_of(document(*sections), PUBLIC_KEYS, quota=answer) == code
    assert asked == ["k1"]


def test_an_unknown_quota_refuses_the_upload() -> None:
    def silent(api_key: str) -> int:
        raise SecmonError(1131)

    new = document("<integration><name>virustotal</name><api_key>k</api_key></integration>")
    assert code_of(new, PUBLIC_KEYS, quota=silent) == 1131


HOSTS = "<indexer><hosts><host>a</host></hosts></indexer>"
LIMIT = "<global><logall>no</logall><limits><eps><maximum>9</maximum></eps></limits></global>"


@pytest.mark.parametrize(
    ("allowed", "section", "changed", "other"),
    [
        (INDEXER, HOSTS, HOSTS.replace("a", "b"), LIMIT),
        (EPS, LIMIT, LIMIT.replace("9", "8"), LIMIT.replace("no", "yes")),
    ],
)
def test_protected_sections(allowed: UploadConfiguration, section: str, changed: str, other: str) -> None:
    saved = document(section)
    assert code_of(document(section, "<alerts/>"), allowed, saved) == 0
    assert code_of(document(changed), allowed, saved) == 1127
    assert code_of(document(section, changed), allowed, saved) == 1127
    assert code_of(document(), allowed, saved) == 1127
    assert code_of(document(section), allowed, document()) == 1127
    assert code_of(document(section), allowed, None) == 1127
    assert code_of(document(), allowed, None) == 0
    assert code_of(document(section + other), allowed, document(section + other)) == 0


def test_the_first_rule_broken_is_named() -> None:
    everything = switches(
        "{remote_commands: {localfile: {allow: no}}, agents: {allow_higher_versions: {allow: no}},"
        " indexer: {allow: no}}"
    )
    remote = "<remote><agents><allow_higher_versions>yes</allow_higher_versions></agents></remote>"
    assert code_of(document(HOSTS, remote, COMMAND), everything) == 1124
    assert code_of(document(HOSTS, remote), everything) == 1129
    assert code_of(document(HOSTS, "<wodle/>"), everything) == 1113
    assert code_of(document(HOSTS), everything) == 1127


def test_a_wodle_without_name_cannot_be_converted() -> None:
    assert code_of(document("<wodle><x/></wodle>"), UploadConfiguration()) == 1113


def test_the_program_that_gives_keys_is_named_on_the_host_only() -> None:
    """Otherwise a user who may upload a configuration could run anything on the node."""
    asked = "<auth><key_request><exec_path>/opt/keys</exec_path><timeout>5</timeout></key_request></auth>"
    other = asked.replace("/opt/keys", "/bin/sh")
    socket = "<auth><key_request><socket>/run/keys</socket></key_request></auth>"
    allowed = UploadConfiguration()
    assert code_of(document(asked), allowed, document(asked)) == 0
    assert code_of(document(asked.replace(">5<", ">6<")), allowed, document(asked)) == 0
    assert code_of(document(asked), allowed) == 1127
    assert code_of(document(other), allowed, document(asked)) == 1127
    assert code_of(document(asked, other), allowed, document(asked)) == 1127
    assert code_of(document(socket), allowed, document()) == 1127
    assert code_of(document(), allowed, document(asked)) == 1127
