"""Which files make up a ruleset, and in which order (ruleset.md 1.2, 1.3)."""

import os
from pathlib import Path

import pytest

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.default_ruleset import default_ruleset_files
from secmon.config.xml import parse_xml
from secmon.daemons.installation_files import create_installation_files
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.ruleset_section import RulesetSection, read_section
from secmon.engine.ruleset.sources import (
    Sources,
    collect,
    collect_folder,
    compile_installation,
    compile_sources,
)

RULE = b'<group name="g,"><rule id="1" level="0"><category>syslog</category><description>d</description></rule></group>'
DECODER = b'<decoder name="d"><prematch>x</prematch></decoder>'


def section(inside: str) -> str:
    return f"<ossec_config><ruleset>{inside}</ruleset></ossec_config>"


def parse_section(text: str) -> RulesetSection:
    return read_section(parse_xml(text, "ossec.conf", code=1101), "ossec.conf")


def collected(root: Path, inside: str = "") -> Sources:
    return collect(root, parse_section(section(inside)))


def names(files: list[tuple[str, bytes]]) -> list[str]:
    return [path for path, _ in files]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, data in {
        "ruleset/rules/0010-a_rules.xml": RULE,
        "ruleset/rules/0020-b_rules.xml": RULE,
        "ruleset/rules/notes.txt": b"",
        "ruleset/rules/sub/0001-c_rules.xml": RULE,
        "ruleset/decoders/0010-a_decoders.xml": DECODER,
        "etc/rules/0015-own_rules.xml": RULE,
        "etc/rules/local_rules.xml": b"",
        "etc/decoders/local_decoder.xml": b"",
        "etc/lists/users": b"ana:admin\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return tmp_path


def test_default_folders_without_their_subfolders(root: Path) -> None:
    sources = collected(root)
    assert names(sources.rules) == ["ruleset/rules/0010-a_rules.xml", "ruleset/rules/0020-b_rules.xml"]
    assert names(sources.decoders) == ["ruleset/decoders/0010-a_decoders.xml"]
    assert sources.lists == {}


def test_a_file_that_is_removed_after_its_folder_was_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed, read = root / "ruleset/rules/0010-a_rules.xml", Path.read_bytes

    def racing(path: Path) -> bytes:
        removed.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", racing)
    sources = collected(root)
    assert (names(sources.rules), sources.messages) == (["ruleset/rules/0020-b_rules.xml"], [])


def test_lists_of_our_rules_need_no_mention(root: Path) -> None:
    for path in ("ruleset/lists/ours", "ruleset/lists/ours.cdb", "ruleset/lists/removed", "etc/lists/ours"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(b"x:1\n")
    assert list(collected(root).lists) == ["etc/lists/ours"]
    assert list(collected(root, "<list>etc/lists/users</list>").lists) == ["etc/lists/users", "etc/lists/ours"]
    section_ = parse_section(section(""))
    assert collect(root, section_, {"etc/lists/ours": None}).lists == {}
    assert collect(root, section_, {"etc/lists/removed": b"y:"}).lists == {
        "etc/lists/ours": b"x:1\n",
        "etc/lists/removed": b"y:",
    }


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_only_files_are_read_of_a_folder(root: Path, kind: str) -> None:
    path = root / "ruleset/rules/9999-x_rules.xml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="neither a regular file nor a link to one"):
        collect_folder(root / "ruleset")


def test_base_names_order_files_of_all_folders(root: Path) -> None:
    sources = collected(root, "<rule_dir>ruleset/rules</rule_dir><rule_dir>etc/rules/</rule_dir>")
    assert [path.rpartition("/")[2] for path in names(sources.rules)] == [
        "0010-a_rules.xml",
        "0015-own_rules.xml",
        "0020-b_rules.xml",
        "local_rules.xml",
    ]


def test_includes_do_not_replace_the_default_folder(root: Path) -> None:
    sources = collected(root, "<rule_include>etc/rules/0015-own_rules.xml</rule_include>")
    assert len(sources.rules) == 3


def test_excludes_concern_folders_only(root: Path) -> None:
    excluded = (
        "<rule_exclude>0010-a_rules.xml</rule_exclude><rule_exclude>ruleset/rules/0020-b_rules.xml</rule_exclude>"
    )
    assert names(collected(root, excluded).rules) == []
    kept = collected(root, excluded + "<rule_include>0010-a_rules.xml</rule_include>")
    assert names(kept.rules) == ["ruleset/rules/0010-a_rules.xml"]


def test_patterns_choose_files(root: Path) -> None:
    inside = '<rule_dir pattern="B_rules.xml$">ruleset/rules</rule_dir>'
    assert names(collected(root, inside).rules) == ["ruleset/rules/0020-b_rules.xml"]


def test_a_file_is_listed_once(root: Path) -> None:
    twice = "<rule_dir>ruleset/rules</rule_dir><rule_dir>ruleset/rules</rule_dir>"
    assert len(collected(root, twice).rules) == 2


def test_several_sections_are_one(root: Path) -> None:
    text = section("<list>etc/lists/users</list>") + section("<rule_dir>etc/rules</rule_dir>")
    sources = collect(root, parse_section(text))
    assert sources.lists == {"etc/lists/users": b"ana:admin\n"}
    assert names(sources.rules) == ["etc/rules/0015-own_rules.xml", "etc/rules/local_rules.xml"]


def test_lists_by_their_path_without_the_compiled_forms_name(root: Path) -> None:
    assert list(collected(root, "<list>etc/lists/users.cdb</list>").lists) == ["etc/lists/users"]


def test_what_cannot_be_read_is_left_out_with_a_warning(root: Path) -> None:
    sources = collected(root, "<list>etc/lists/none</list><rule_include>none.xml</rule_include>")
    assert [(one.severity, one.number, one.file) for one in sources.messages] == [
        ("WARNING", 1103, "ruleset/rules/none.xml"),
        ("WARNING", 1103, "etc/lists/none"),
    ]
    missing = collected(root, "<decoder_dir>etc/none</decoder_dir>")
    assert [one.file for one in missing.messages] == ["etc/none"]


def test_empty_decoder_files(root: Path) -> None:
    assert names(collected(root, "<decoder_dir>etc/decoders</decoder_dir>").decoders) == [
        "etc/decoders/local_decoder.xml"
    ]
    (root / "ruleset/decoders/0020-x.xml").write_bytes(b"")
    with pytest.raises(RulesetError, match="the file is empty"):
        collected(root)


@pytest.mark.parametrize(
    "inside",
    [
        "<rules>x</rules>",
        '<rule_dir kind="x">ruleset/rules</rule_dir>',
        '<rule_dir pattern="(">ruleset/rules</rule_dir>',
    ],
)
def test_mistakes_in_the_section(inside: str) -> None:
    with pytest.raises(ConfigError):
        parse_section(section(inside))


def test_a_new_installation_holds_the_default_ruleset(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "n")
    create_installation_files(paths)
    compiled = compile_installation(paths)
    assert [str(one) for one in compiled.messages] == []
    assert compiled.settings.alert_level == 3
    assert {path for path in default_ruleset_files() if path.startswith("lists/")} == {
        str(path.relative_to(paths.etc)) for path in (paths.etc / "lists").iterdir()
    }
    assert compiled.rules.by_id[1].file == "ruleset/rules/0000-roots_rules.xml"


def test_a_folder_of_ones_own(root: Path) -> None:
    sources = collect_folder(root / "ruleset")
    assert names(sources.rules) == ["ruleset/rules/0010-a_rules.xml", "ruleset/rules/0020-b_rules.xml"]
    (root / "ruleset/lists").mkdir()
    (root / "ruleset/lists/users").write_bytes(b"a:b\n")
    assert collect_folder(root / "ruleset").lists == {"etc/lists/users": b"a:b\n"}


def test_dates_of_entries_stand_beside_their_list(root: Path) -> None:
    (root / "etc/lists/users.expiry").write_bytes(b"ana:2026-09-21T14:13:20Z\nbob:soon\n")
    sources = collected(root, "<list>etc/lists/users</list>")
    assert list(sources.lists) == ["etc/lists/users", "etc/lists/users.expiry"]
    made = compile_sources(sources)
    assert list(made.lists) == ["etc/lists/users"]
    assert [made.lists["etc/lists/users"].value(b"ana", at) for at in (1789999999, 1790000000)] == [b"admin", None]
    warning = "(1103): 1 lines are not a key with a date: these entries do not expire (etc/lists/users.expiry)"
    assert warning in [one.detail() for one in made.messages]
    gone = collect(root, parse_section(section("<list>etc/lists/users</list>")), {"etc/lists/users.expiry": None})
    assert list(gone.lists) == ["etc/lists/users"]
