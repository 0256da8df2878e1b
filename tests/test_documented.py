"""What pages tell readers to type, set or look for exists: commands, options, operations, codes, targets, log lines."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from secmon.cli import main
from secmon.common.errors import CATALOGUE as ERRORS
from secmon.config.options import OPTIONS
from secmon.operations.all import CATALOGUE as OPERATIONS
from secmon.operations.internal import INTERNAL
from tests.offenders import Offenders

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|\s)(?:\.venv/bin/)?secmon (?P<arguments>[a-z-].*)")
OPTION = re.compile(r"\b(?:analysisd|apid|auth|clusterd|daemons|modulesd|monitord|remoted)\.[a-z_]+\b(?![.:])")
ENDPOINT = re.compile(r"`(?P<method>GET|POST|PUT|DELETE) (?P<path>/[\w/{}.-]*)[^`]*`")
CODE = re.compile(r"\(codes? (\d{4})")
TARGET = re.compile(r"`make ([a-z-]+)`")
SENTENCE = re.compile(r"[A-Za-z]\w*(?: [\w,.:']+){3,}")
VARIABLE = re.compile(r"\b\d[\w.:]*|\bN\b|\.\.\.|\([^)]*\)|/\S+")
"""What differs in a quoted log line from one occurrence to the next."""
PREFIX = re.compile(r"^\S+ \S+ secmon-\S+: [A-Z]+: ")


def pages() -> Iterator[tuple[str, str]]:
    for file in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]):
        yield file.name, file.read_text()


def commands(text: str) -> Iterator[list[str]]:
    """Arguments of ``secmon`` in fences and code spans."""
    fences = [line for found in FENCE.finditer(text) for line in found["code"].replace("\\\n", " ").splitlines()]
    for line in [*fences, *SPAN.findall(FENCE.sub("", text))]:
        for found in COMMAND.finditer(line.strip()):
            yield shlex.split(re.split(r"  |[|;&#<>]|\.\.\.", found["arguments"])[0])


def check_command(arguments: list[str]) -> None:
    """Raises AssertionError with what ``secmon`` does not know."""
    command: click.Command = main
    context = click.Context(main)
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"no command {rest[0]}"
        command, rest = found, rest[1:]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help", "--version"}
    assert [each for each in rest if each.startswith("-") and each.partition("=")[0] not in known] == []


def quoted_lines(text: str) -> Iterator[str]:
    """Texts of the product that a page quotes: fences of the language ``log``, and sentences in code spans."""
    for found in FENCE.finditer(text):
        if found["language"] == "log":
            yield from (PREFIX.sub("", line) for line in found["code"].splitlines())
    for span in SPAN.findall(FENCE.sub("", text)):
        if SENTENCE.fullmatch(span) and not span.startswith(("secmon ", "docker ", "podman ")):
            yield span


@cache
def texts() -> tuple[str, ...]:
    """Texts of the code, with a zero byte for each value that is put in."""
    found = []
    for file in (ROOT / "secmon").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                found.append(re.sub(r"%[sdr]|%\.\d+f|\{\w*\}", "\0", node.value))
    return tuple(found)


def occurs(line: str) -> bool:
    """Whether one text of the code has all that does not vary in ``line``."""
    pieces = [piece.strip(" :") for piece in VARIABLE.split(line)]
    whole = [piece for piece in pieces if len(piece) > 3]
    return bool(whole) and any(all(piece in text for piece in whole) for text in texts())


def test_commands_and_their_options_exist() -> None:
    with Offenders() as offenders:
        for page, text in pages():
            for arguments in commands(text):
                with offenders.row(page, *arguments):
                    check_command(arguments)


def test_internal_options_exist() -> None:
    counters = {"authd.connections", "authd.handshake_failures", "authd.pass"}
    with Offenders() as offenders:
        for page, text in pages():
            for name in set(OPTION.findall(text)) - counters:
                with offenders.row(page, name):
                    assert name in OPTIONS


def test_endpoints_exist() -> None:
    known = {(each.method, re.sub(r"\{\w+\}", "{}", each.path)) for each in (*OPERATIONS, *INTERNAL)}
    with Offenders() as offenders:
        for page, text in pages():
            for found in ENDPOINT.finditer(text):
                with offenders.row(page, found[0]):
                    assert (found["method"], re.sub(r"\{\w+\}", "{}", found["path"])) in known


def test_codes_exist() -> None:
    with Offenders() as offenders:
        for page, text in pages():
            for code in CODE.findall(text):
                with offenders.row(page, code):
                    assert int(code) in ERRORS


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    with Offenders() as offenders:
        for page, text in pages():
            for target in TARGET.findall(text):
                with offenders.row(page, target):
                    assert target in targets


def test_quoted_lines_are_in_the_code() -> None:
    with Offenders() as offenders:
        for page, text in pages():
            for line in quoted_lines(text):
                with offenders.row(page, line):
                    assert occurs(line)


def test_the_rooms_are_drawn_in_the_order_of_the_layers() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawing = next(found["code"] for found in FENCE.finditer(text) if "┌" in found["code"])
    drawn = [re.findall(r"[a-z]+", line) for line in drawing.splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [layer.split(" | ") for layer in contracts[0]["layers"]]
    assert [line for line in drawn if line] == layers
    described = re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)
    assert described == [room for layer in layers for room in layer]


def test_the_readme_lists_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    assert [page for page, _ in pages() if page != "README.md" and f"(docs/{page})" not in text] == []
