"""Placeholders of rules, and the file with their values."""

from pathlib import Path
from typing import Any

import pytest

from secmon.importers.sigma.placeholders import expanded, read_values
from secmon.importers.sigma.source import BadFile, Document
from tests.importers.sigma.kit import Translated, rule, windows

VALUES = {"admins": ["ana", "b*b"], "host": ["web1"], "many": [str(at) for at in range(100)]}


def with_values(selection: Any) -> Translated:
    content = rule({"selection": selection})
    return Translated(expanded(Document("x.yml", content), VALUES).content)


@pytest.mark.parametrize(
    ("selection", "user", "hits"),
    [
        ({"User|expand": "%admins%"}, "ANA", True),
        ({"User|expand": "%admins%"}, "bob", True),
        ({"User|expand": "%admins%"}, "eve", False),
        ({"User|endswith|expand": ["\\\\%admins%", "x"]}, "DOMAIN\\ana", True),
        ({"User|contains|expand": "%host%-%admins%"}, "a web1-ana", True),
        ({"User|contains|expand": "%host%-%admins%"}, "a web1-eve", False),
        ({"User|contains|all|expand": ["%host%", "x"]}, "x web1", True),
        ([{"User|expand": "%host%"}], "web1", True),
    ],
)
def test_values_take_the_place_of_placeholders(selection: Any, user: str, hits: bool) -> None:
    assert with_values(selection).fires(windows(User=user)) is hits


@pytest.mark.parametrize(
    "selection",
    [
        {"User|expand": "%others%"},
        {"User|contains|all|expand": ["%admins%", "x"]},
        {"User|expand": "%many%%many%"},
    ],
)
def test_placeholders_without_values_are_reported(selection: Any) -> None:
    assert "placeholder" in with_values(selection).reason()


def test_a_file_of_values(tmp_path: Path) -> None:
    file = tmp_path / "names.yml"
    file.write_text("admins: [ana, 7]\nhost: web1\n")
    assert read_values(file) == {"admins": ["ana", "7"], "host": ["web1"]}
    for bad in ("", "- a", "a: {b: c}", "a: [[b]]", "a:", "a: b\n---\nc: d\n", "a: ["):
        file.write_text(bad)
        with pytest.raises(BadFile):
            read_values(file)
