"""Bad files and documents: each is reported with its reason, and costs itself only."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.importers.sigma.ids import IdMap
from secmon.importers.sigma.source import MAX_FILE, Document, find_files, read_documents
from secmon.importers.sigma.translate import translate
from tests.importers.sigma.kit import Translated, rule

GOOD = """title: Good
id: 5f113a8f-8b61-41ca-b90f-d374fa7e4a39
logsource: {product: windows, category: process_creation}
detection:
  selection:
    Image|endswith: '\\a.exe'
  condition: selection
date: 2024-02-29
"""
OTHER = GOOD.replace("4a39", "4a38")
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def reasons(folder: Path) -> dict[str, str]:
    found = [one for file in find_files(folder) for one in read_documents(file, file.name)]
    return {line.place: line.reason for line in translate(found, IdMap()).lines}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOMB.encode(), "aliases"),
        (b"[" * 1000, "levels"),
        (b"a: [" + b"x," * 30_000 + b"]", "20000 values"),
        (b"x" * (MAX_FILE + 1), "larger than 1 MB"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "not YAML"),
        (bytes(range(128, 256)), "not UTF-8"),
        (b"title: [", "not YAML"),
        (b"", "empty"),
        (b"- a\n- b\n", "not a mapping"),
        (b"1: 2\n", "not a mapping"),
        (b"just text", "not a mapping"),
        (b"title: x\n", "log source"),
        (b"title: !!python/object/apply:os.system [id]\n", "not YAML"),
        (OTHER.replace("id: 5f", "id: no uuid 5f").encode(), "UUID"),
        (OTHER.replace("condition: selection", "condition: " + "(" * 20_000).encode(), "longer"),
        (OTHER.replace("condition: selection", "condition: 5").encode(), ""),
        (OTHER.replace("detection:", "detection: x\nother:").encode(), ""),
        (OTHER.replace("title: Good", "filter: {}").encode(), "filter"),
        (OTHER.replace("title: Good", "action: global").encode(), "action"),
        (
            OTHER.replace("process_creation", "coffee_machine").encode(),
            "log source: product windows, category coffee",
        ),
    ],
)
def test_a_bad_file_is_reported_and_the_rest_goes_on(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_bytes(content)
    (tmp_path / "good.yml").write_text(GOOD)
    found = reasons(tmp_path)
    assert found["good.yml"] == ""
    assert found["bad.yml"], content[:80]
    assert reason in found["bad.yml"]


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yml")
    (tmp_path / "dangling.yml").symlink_to("nowhere")
    (tmp_path / "folder.yml").mkdir()
    (tmp_path / "good.yml").write_text(GOOD)
    found = reasons(tmp_path)
    assert found == {
        "dangling.yml": "No such file or directory",
        "good.yml": "",
        "pipe.yml": "it is not a regular file",
    }


def test_all_yaml_files_below_a_folder_are_read(tmp_path: Path) -> None:
    for name in ("b/x.yaml", "a.yml", ".git/y.yml", "b/.hidden.yml", "notes.txt", "b/c/z.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(GOOD)
    assert [str(one.relative_to(tmp_path)) for one in find_files(tmp_path)] == ["a.yml", "b/x.yaml", "b/c/z.yml"]


def test_several_documents_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "two.yml").write_text(GOOD + "---\n" + GOOD.replace("a39", "a38") + "---\n")
    assert reasons(tmp_path) == {"two.yml": "", "two.yml#2": ""}


def test_an_id_that_is_used_twice_names_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(GOOD)
    (tmp_path / "b.yml").write_text(GOOD.replace("Good", "Other"))
    assert reasons(tmp_path) == {"a.yml": "", "b.yml": "its id is that of a.yml"}


def test_rules_that_are_no_longer_in_use_are_left_out() -> None:
    for status in ("deprecated", "unsupported"):
        assert status in Translated(rule({"selection": {"Image": "x"}}, status=status)).reason()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.text(max_size=8), below, max_size=3)),
    max_leaves=6,
)
NAMES = [
    "title",
    "id",
    "logsource",
    "detection",
    "level",
    "tags",
    "status",
    "date",
    "author",
    "correlation",
    "references",
]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4), st.booleans())
def test_values_of_any_type_are_refused_or_translated(changes: dict[str, Any], correlation: bool) -> None:
    content = rule({"selection": {"Image": "x"}}) | changes
    if correlation:
        content["correlation"] = {"type": "event_count", "rules": ["x"], **changes}
    (line,) = translate([Document("x.yml", content)], IdMap()).lines
    assert line.result in ("imported", "untranslated", "unreadable")
    assert bool(line.reason) is (line.result != "imported")


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.text(max_size=6), st.sampled_from(["user", "srcgeoip", "status", "url.path", "a.b", "*"])),
    st.text(max_size=5),
)
def test_any_name_and_value_leaves_a_ruleset_that_loads(name: str, value: str) -> None:
    Translated(
        rule({"selection": {name: value}}, {"product": "kubernetes", "service": "audit"}, title=f"{name} {value}")
    )


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_a_detection_of_any_type_is_refused_or_translated(search: Any) -> None:
    (line,) = translate([Document("x.yml", rule({"selection": search}))], IdMap()).lines
    assert line.result in ("imported", "untranslated", "unreadable")
