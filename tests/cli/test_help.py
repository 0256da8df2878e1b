"""What all commands have: help, wrong usage, the folder of the installation."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from secmon.cli import main
from secmon.cli.group import MAX_ROOT
from tests.cli.runner import run


def commands(group: click.Group, path: tuple[str, ...] = (), *, leaves: bool = False) -> Iterator[tuple[str, ...]]:
    """The path of every command below ``group``; with ``leaves`` groups themselves are left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not (leaves and isinstance(command, click.Group)):
            yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name), leaves=leaves)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_help_teaches_with_an_example(path: tuple[str, ...]) -> None:
    done = run(*path, "--help")
    assert done.exit_code == 0
    assert re.search(rf"Examples?:\s+secmon {path[0]}", done.output)


@pytest.mark.parametrize("path", list(commands(main, leaves=True)), ids=" ".join)
def test_help_names_the_exit_status(path: tuple[str, ...]) -> None:
    assert "Exit status: 0" in run(*path, "--help").output


@pytest.mark.parametrize(
    "path", [(), *(one for one in commands(main) if one not in commands(main, leaves=True))], ids=" ".join
)
def test_summaries_are_whole_on_a_narrow_terminal(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
    _, _, listed = done.output.partition("Commands:\n")
    assert listed
    assert "..." not in listed
    assert all(re.match(r"  [a-z]", line) for line in listed.splitlines())  # one line each


def test_main_help_lists_all_commands() -> None:
    output = run("--help").output
    for name in (
        "init",
        "start",
        "stop",
        "restart",
        "reload",
        "status",
        "demo",
        "config",
        "user",
        "cluster",
        "openapi",
    ):
        assert f"\n  {name} " in output


@pytest.mark.parametrize("arguments", [("nonsense",), ("start", "--nonsense"), ("init",), ("demo", "--workers", "99")])
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("command", ["start", "stop", "restart", "reload", "status", "config check", "cluster nodes"])
def test_folder_without_an_installation_is_named(root: Path, command: str) -> None:
    done = run(*command.split(), "--root", str(root))
    assert done.exit_code == 1
    assert f"{root} holds no installation; make one: secmon init {root}" in done.output


def test_path_too_long_for_sockets_is_refused(root: Path) -> None:
    done = run("init", str(root / ("x" * MAX_ROOT)))
    assert done.exit_code == 2
    assert "must not be longer than" in done.output
