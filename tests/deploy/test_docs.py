"""What the pages of docs/ and the comments name is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folders import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SOURCES = sorted((REPOSITORY / "secmon").rglob("*.py"))
ROOMS = {folder.name for folder in (REPOSITORY / "secmon").iterdir() if (folder / "__init__.py").exists()}
FORMER_ROOMS = {"events", "fleet"}
PATH = re.compile(
    r"(?<![\w./-])(?:secmon|tests|bench|scripts|deploy|docs|proto)/[\w./-]*\w|(?<![\w./-])(?:\w+/)*\w+\.(?:py|md)\b"
)
MODULE = re.compile(r"``((?:[a-z_]+\.)+[A-Za-z_]\w*)``")
EXAMPLES = {"bench/results", "tests/ruleset/topic.ini"}
"""Made by a command, or by the reader."""


def exists(name: str) -> bool:
    """A path of the repository, or the end of one below ``secmon/``."""
    if (REPOSITORY / name).exists() or name in EXAMPLES:
        return True
    return any((folder / name).exists() for folder in [REPOSITORY / "docs", *(REPOSITORY / "secmon").rglob("")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_named_in_a_page_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text()))
    assert {name for name in named if not exists(name)} == set()


def test_the_readme_names_every_page() -> None:
    text = (REPOSITORY / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in text] == []


def test_rooms_of_the_architecture_are_those_of_the_source() -> None:
    text = (REPOSITORY / "docs/architecture.md").read_text()
    section = text.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == ROOMS


def lost_modules() -> Iterator[str]:
    """Dotted names in comments and docstrings that begin with a room and lead to no module."""
    for source in SOURCES:
        for name in MODULE.findall(source.read_text()):
            parts = name.split(".")
            here = REPOSITORY / "secmon"
            if parts[0] not in ROOMS | FORMER_ROOMS or not parts[-1][0].isupper():
                continue
            if not any((here / "/".join(parts[:end])).with_suffix(".py").exists() for end in range(1, len(parts))):
                yield f"{source.relative_to(REPOSITORY)}: {name}"


def test_classes_named_in_comments_are_in_modules_that_exist() -> None:
    assert list(lost_modules()) == []
