"""Configuration and files of groups (manager.md 2.6)."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from secmon.agents.groups.folders import create_group, delete_group
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, read_text
from secmon.operations.groups import files
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

READ, REPLACE = "GET /groups/{group_id}/configuration", "PUT /groups/{group_id}/configuration"
FILES, FILE = "GET /groups/{group_id}/files", "GET /groups/{group_id}/files/{file_name}"
JSON, XML = f"{FILE}/json", f"{FILE}/xml"

CONFIG = b"""\
<agent_config><localfile><log_format>syslog</log_format><location>/a</location></localfile></agent_config>
<agent_config os="Linux"><localfile><log_format>json</log_format><location>/b</location></localfile></agent_config>
<agent_config os="Linux"><localfile><log_format>json</log_format><location>/c</location></localfile></agent_config>
"""
BLOCKS = [
    {"filters": {}, "config": {"localfile": [{"log_format": "syslog", "location": "/a"}]}},
    {
        "filters": {"os": "Linux"},
        "config": {
            "localfile": [{"log_format": "json", "location": "/b"}, {"log_format": "json", "location": "/c"}],
        },
    },
]


@pytest.fixture
def office(alone: World) -> Office:
    office = Office(alone)
    folder = create_group(office.node.paths, "web")
    (folder / "agent.conf").write_bytes(CONFIG)
    return office


def folder(office: Office) -> Path:
    return office.node.paths.shared / "web"


async def test_the_configuration_as_json(office: Office) -> None:
    body = await office.ask(READ, group_id="web")
    assert body == {"data": {"affected_items": BLOCKS, "total_affected_items": 2}, "error": 0}
    body = await office.ask(READ, group_id="web", offset=1, limit=5)
    assert body["data"] == {"affected_items": BLOCKS[1:], "total_affected_items": 2}


async def test_configurations_that_cannot_be_read(office: Office) -> None:
    assert (await office.refused(READ, group_id="none")).code == 1710
    assert (await office.refused(READ, "nobody", group_id="web")).code == 4000
    (folder(office) / "agent.conf").write_bytes(b"<agent_config>")
    assert (await office.refused(READ, group_id="web")).code == 1101
    (folder(office) / "agent.conf").unlink()
    assert (await office.refused(READ, group_id="web")).code == 1006
    (folder(office) / "agent.conf").symlink_to("/etc/passwd")
    assert (await office.refused(READ, group_id="web")).code == 1006


async def test_replacing_the_configuration(office: Office) -> None:
    new = b"<agent_config>\n  <labels><label key='a'>\xc3\xa4</label></labels>\n</agent_config>"
    body = await office.ask(REPLACE, group_id="web", body=new)
    assert body == {"message": "The configuration of the group web was replaced", "error": 0}
    file = folder(office) / "agent.conf"
    assert file.read_bytes() == new
    assert stat.S_IMODE(file.stat().st_mode) == 0o660
    body = await office.ask(REPLACE, group_id="web", body=b"<agent_config><global/></agent_config>")
    assert "agents do not read this section" in body["message"]


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", 1112, ""),
        (b" \n", 1112, ""),
        (b"\xff", 1911, "byte 0"),
        (b"<agent_config>", 1113, "line"),
        (b"<agent_config>\n<labels><label key='a'>&#0;</label></labels></agent_config>", 1113, "line 2"),
        (b"text", 1114, "'text'"),
        (
            b"<agent_config>\n<syscheck><disabled>x</disabled></syscheck></agent_config>",
            1114,
            "agent.conf:2: syscheck.dis",
        ),
        (b"<ossec_config></ossec_config>", 1114, "ossec_config"),
        (b"<agent_config>" + b"<x/>" * 50 + b"</agent_config>", 1114, "and 30 more"),
    ],
)
async def test_configurations_that_are_refused(office: Office, body: bytes, code: int, text: str) -> None:
    error = await office.refused(REPLACE, group_id="web", body=body)
    assert (error.code, text in error.message) == (code, True), error.message
    assert (folder(office) / "agent.conf").read_bytes() == CONFIG


async def test_checks_of_a_replacement(office: Office) -> None:
    assert (await office.refused(REPLACE, "nobody", group_id="web", body=b"<agent_config/>")).code == 4000
    assert (await office.refused(REPLACE, group_id="none", body=b"<agent_config/>")).code == 1710


@pytest.mark.parametrize(
    ("operation", "step", "params"),
    [
        (READ, "read_file", {}),
        (REPLACE, "write_file", {"body": CONFIG}),
        (FILE, "read_file", {"file_name": "agent.conf"}),
        (JSON, "read_file", {"file_name": "agent.conf"}),
        (XML, "read_file", {"file_name": "agent.conf"}),
    ],
)
async def test_a_group_that_is_deleted_meanwhile(
    office: Office, monkeypatch: pytest.MonkeyPatch, operation: str, step: str, params: dict[str, Any]
) -> None:
    _delete_before(monkeypatch, office, step)
    assert (await office.refused(operation, group_id="web", **params)).code == 1710


async def test_a_group_that_is_deleted_while_its_files_are_listed(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    _delete_before(monkeypatch, office, "hash_files")
    body = await office.ask(FILES, group_id="web")
    assert [failed["error"]["code"] for failed in body["data"]["failed_items"]] == [1710]


def _delete_before(monkeypatch: pytest.MonkeyPatch, office: Office, step: str) -> None:
    """Delete the group in the middle of the next operation on it: before its ``step``."""
    follow = getattr(files, step)

    def deleted_meanwhile(*args: Any) -> Any:
        delete_group(office.node.paths, "web")
        return follow(*args)

    monkeypatch.setattr(files, step, deleted_meanwhile)


async def test_commands_that_the_settings_forbid(empty_world: World) -> None:
    empty_world.start(
        clustered=False,
        api={
            "upload_configuration.remote_commands.localfile.allow": False,
            "upload_configuration.remote_commands.localfile.exceptions": ["df -P"],
            "upload_configuration.remote_commands.wodle_command.allow": False,
        },
    )
    office = Office(empty_world)
    create_group(office.node.paths, "web")
    local = b"<agent_config><localfile><log_format>command</log_format><command>%s</command></localfile></agent_config>"
    module = b"<agent_config><wodle name='command'><tag>x</tag><command>id</command></wodle></agent_config>"
    assert (await office.refused(REPLACE, group_id="web", body=local % b"id")).code == 1124
    assert (await office.refused(REPLACE, group_id="web", body=module)).code == 1124
    assert (await office.ask(REPLACE, group_id="web", body=local % b"df -P"))["error"] == 0


async def test_the_files(office: Office) -> None:
    shared = office.node.paths.shared
    for name, content in (
        ("web/merged.mg", b"#web\n"),
        ("web/sub/deep/x", b"1"),
        ("web/.hidden", b""),
        ("ar.conf", b"r"),
    ):
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_bytes(content)
    (shared / "web/link").symlink_to("/etc/passwd")
    os.mkfifo(shared / "web/pipe")
    body = await office.ask(FILES, group_id="web")
    assert body["data"]["affected_items"] == [
        {"filename": "agent.conf", "hash": md5(CONFIG)},
        {"filename": "ar.conf", "hash": md5(b"r")},
        {"filename": "merged.mg", "hash": md5(b"#web\n")},
        {"filename": "sub/deep/x", "hash": md5(b"1")},
    ]
    body = await office.ask(FILES, group_id="web", hash="blake2b", q="filename~deep", select=["hash"])
    assert body["data"]["affected_items"] == [{"filename": "sub/deep/x", "hash": hashlib.blake2b(b"1").hexdigest()}]
    assert await office.failed(FILES, group_id="none") == [(1710, ["none"])]
    assert (await office.refused(FILES, "nobody", group_id="web")).code == 4000


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


CHECKS = b"$x=/a;\n[A {CIS: 1.1 Debian}] [any] [ref]\nf:$x -> r:y;\n"


@pytest.mark.parametrize(
    ("name", "content", "params", "data"),
    [
        ("agent.conf", CONFIG, {}, {"affected_items": BLOCKS, "total_affected_items": 2}),
        ("copy.conf", CONFIG, {"type": ["conf"]}, {"affected_items": BLOCKS, "total_affected_items": 2}),
        ("rootkit_files.txt", b"a ! b ::c\n", {}, [{"filename": "a", "name": "b", "link": "c"}]),
        ("rootkit_trojans.txt", b"a !b!c\n", {}, [{"filename": "a", "name": "b", "description": "c"}]),
        ("mine.txt", b"a !b!c\n", {"type": ["rootkit_trojans"]}, [{"filename": "a", "name": "b", "description": "c"}]),
        (
            "cis.txt",
            CHECKS,
            {},
            {
                "vars": {"x": "/a"},
                "controls": [
                    {
                        "name": "A",
                        "cis": ["1.1 Debian"],
                        "condition": "any",
                        "reference": "ref",
                        "checks": ["f:$x -> r:y;"],
                    }
                ],
            },
        ),
        ("any, other: file", b"\xff\0", {}, {"vars": {}, "controls": []}),
    ],
)
async def test_files_as_objects(office: Office, name: str, content: bytes, params: dict[str, Any], data: Any) -> None:
    (folder(office) / name).write_bytes(content)
    for operation in (FILE, JSON):
        assert await office.ask(operation, group_id="web", file_name=name, **params) == {"data": data, "error": 0}


async def test_the_table_of_active_responses(office: Office) -> None:
    (office.node.paths.shared / "ar.conf").write_bytes(b"a - b - 0\nc - d - 5\n")
    body = await office.ask(FILE, group_id="web", file_name="ar.conf")
    assert body["data"] == ["a - b - 0", "c - d - 5"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("agent.conf", "application/xml"),
        ("list.txt", "text/plain"),
        ("data.json", "application/json"),
        ("what", "text/plain"),
        ("packed.txt.gz", "text/plain"),
    ],
)
async def test_files_as_they_are(office: Office, name: str, kind: str) -> None:
    (folder(office) / name).write_bytes(b"\xc3\xa4\n")
    raw = await office.world.raw(FILE, group_id="web", file_name=name, raw=True)
    assert (raw.body, raw.content_type) == (b"\xc3\xa4\n", f"{kind}; charset=utf-8")
    raw = await office.world.raw(XML, group_id="web", file_name=name)
    assert (raw.body, raw.content_type) == (b"\xc3\xa4\n", "application/xml; charset=utf-8")


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "absent", "sub", "link", "pipe"])
async def test_paths_out_of_the_folder(office: Office, name: str) -> None:
    (folder(office) / "sub").mkdir()
    (folder(office) / ".hidden").write_bytes(b"1")
    (folder(office) / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder(office) / "pipe")
    for operation in (FILE, JSON, XML):
        assert (await office.refused(operation, group_id="web", file_name=name)).code == 1006


async def test_other_refusals(office: Office) -> None:
    assert (await office.refused(FILE, group_id="none", file_name="agent.conf")).code == 1710
    assert (await office.refused(FILE, "nobody", group_id="web", file_name="agent.conf")).code == 4000
    assert (await office.refused(FILE, group_id="web", file_name="agent.conf", type=["conf", "rcl"])).code == 1104
    (folder(office) / "agent.conf").write_bytes(b"<x")
    assert (await office.refused(JSON, group_id="web", file_name="agent.conf")).code == 1101


@pytest.mark.parametrize("name", ["a/b", "../default/agent.conf", "/etc/passwd", "a<b", "a*", "a\0b"])
def test_names_that_are_no_parameters(name: str) -> None:
    operation = CATALOGUE.get(FILE)
    assert operation is not None
    with pytest.raises(ParameterError):
        read_text(operation.parameters, [], {"group_id": "web", "file_name": name})
