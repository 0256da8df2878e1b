"""Which ruleset a command works with: that of the product, of an installation, or of a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from secmon.common.paths import Paths
from secmon.common.shipped import shipped_ruleset
from secmon.daemons.cli.group import installation_paths, require_installation
from secmon.engine.diagnostics import RulesetError
from secmon.engine.files import collect_folder, compile_installation, compile_sources
from secmon.engine.ruleset import Ruleset

F = TypeVar("F", bound=Callable[..., Any])


class Source:
    """What the options say. ``name`` is for people."""

    def __init__(self, paths: Paths | None, folder: Path | None) -> None:
        self._paths = paths
        self._folder = folder or shipped_ruleset()
        self.name = str(paths.root if paths else self._folder)

    def compile(self) -> Ruleset:
        """Raises RulesetError, ConfigError, OSError, and ClickException when there is no installation."""
        if self._paths is None:
            return compile_sources(collect_folder(self._folder))
        require_installation(self._paths)
        return compile_installation(self._paths)

    def usable(self) -> Ruleset:
        """As ``compile``, but what is wrong with the ruleset ends the command in one line."""
        try:
            return self.compile()
        except RulesetError as error:
            raise click.ClickException(str(error)) from error


def source_options(command: F) -> F:
    """``--root`` and ``--ruleset``, passed on as the ``source``."""

    def choose(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
        if value is not None and parameter.name == "root":
            context.params["source"] = Source(installation_paths(value), None)
        elif value is not None and "source" in context.params:
            raise click.UsageError("give --root or --ruleset, not both")
        elif "source" not in context.params:
            context.params["source"] = Source(None, value)
        return value

    kind = click.Path(path_type=Path, file_okay=False)
    folder = click.option(
        "--ruleset", "folder", type=kind, expose_value=False, callback=choose,
        help="Folder with decoders/, rules/ and lists/.",
    )  # fmt: skip
    root = click.option(
        "--root", "root", type=kind, expose_value=False, callback=choose, is_eager=True,
        help="Installation whose configuration names the files. Without it: the ruleset that comes with secmon.",
    )  # fmt: skip
    return root(folder(command))
