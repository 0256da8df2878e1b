"""The grammar of ``files.yml``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.groups.files_yml import FilesYml, GroupFiles, parse_files_yml
from secmon.common.errors import ConfigError

EXAMPLE = b"""
groups:
  web:
    files:
      agent.conf: https://files.example/web/agent.conf
      list.txt: http://files.example:8080/list.txt?v=2
    poll: 15
  db:
    files:
      merged.mg: https://files.example/db.mg
  none: {files: }
agents:
  001: web
  010: db
  "1234": web
"""


def test_the_whole_file() -> None:
    found = parse_files_yml(EXAMPLE)
    assert found.groups["web"].files == {
        "agent.conf": "https://files.example/web/agent.conf",
        "list.txt": "http://files.example:8080/list.txt?v=2",
    }
    assert [each.poll for each in found.groups.values()] == [15, 1800, 1800]
    assert [each.merged for each in found.groups.values()] == [False, True, False]
    assert found.agents == {1: "web", 10: "db", 1234: "web"}


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"groups:\nagents:\n", b"{}"])
def test_nothing(text: bytes) -> None:
    assert parse_files_yml(text) == FilesYml()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("group: {}", "group: there is no such name"),
        ("groups: {web: {files: {}, pol: 1}}", "groups.web.pol: there is no such name"),
        ("groups: {web: {}}", "groups.web.files: missing"),
        ("groups: {web: {files: {}, poll: -1}}", "groups.web.poll: '-1'"),
        ("groups: {web: {files: {}, poll: soon}}", "groups.web.poll: 'soon'"),
        ("groups: {web: {files: {}, poll: [1]}}", "groups.web.poll: not a text"),
        ("groups: {web: {files: {}, poll: 99999999999999}}", "groups.web.poll"),
        ("groups: {'a b': {files: {}}}", "'a b' is not allowed"),
        ("groups: {..: {files: {}}}", "'..' is not allowed"),
        ("groups: {web: {files: {../x: 'http://a/b'}}}", "'../x' is not allowed"),
        ("groups: {web: {files: {.x: 'http://a/b'}}}", "'.x' is not allowed"),
        ("groups: {web: {files: {ar.conf: 'http://a/b'}}}", "'ar.conf' is not allowed"),
        ("groups: {web: {files: {merged.mg.tmp: 'http://a/b'}}}", "'merged.mg.tmp' is not allowed"),
        ("groups: {web: {files: {a/b: 'http://a/b'}}}", "'a/b' is not allowed"),
        ("groups: {web: {files: {x: 'file:///etc/passwd'}}}", "groups.web.files.x: 'file:///etc/passwd'"),
        ("groups: {web: {files: {x: {}}}}", "groups.web.files.x"),
        ("groups: [web]", "groups: not a mapping"),
        ("groups: {web: [x]}", "groups.web: not a mapping"),
        ("agents: {'000': web}", "'000' is not allowed"),
        ("agents: {one: web}", "'one' is not allowed"),
        ("agents: {1: all of them}", "agents.001: 'all of them'"),
        ("agents: {1: }", "agents.001: ''"),
        ("- groups", "not a mapping"),
        ("groups: {web: ", "files.yml:1: YAML"),
        ("a: b: c", "files.yml:1: YAML"),
        ("? [a]\n: b", "YAML"),
        ("\x07", "YAML"),
        ("[" * 5000, "YAML"),
    ],
)
def test_problems_refuse_the_whole_file(text: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_files_yml(text.encode())
    assert part in caught.value.message


def test_a_bomb_of_aliases() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    lines += ["agents: {1: *a59}"]
    with pytest.raises(ConfigError) as caught:
        parse_files_yml("\n".join(lines).encode())
    assert len(caught.value.message) < 1000


def test_a_file_that_is_too_large() -> None:
    with pytest.raises(ConfigError, match="size"):
        parse_files_yml(b"#" * (5 << 20))


@settings(max_examples=150)
@given(st.binary(max_size=40) | st.text(alphabet="agentsgroupsfiles:{}[]&*-?!| \n\t'\"01", max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = parse_files_yml(data)
    except ConfigError:
        return
    assert all(isinstance(each, GroupFiles) for each in found.groups.values())


def test_aliases_are_refused() -> None:
    files = "".join(f"      f{number}: http://h/{number}\n" for number in range(2000))
    groups = "".join(f"  h{number}: *g\n" for number in range(20_000))
    with pytest.raises(ConfigError, match=r"aliases \(\*name\) are not allowed"):
        parse_files_yml(f"groups:\n  g: &g\n    files:\n{files}{groups}".encode())
