"""Which ruleset a command works with: that of the product, of an installation, or of a folder."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from secmon.cli.group import FolderType, installation_paths, require_installation
from secmon.common.paths import Paths
from secmon.config.default_ruleset import default_ruleset_folder
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.sources import collect_folder, compile_installation, compile_sources
from secmon.knowledge.attack.knowledge_base import KnowledgeBase
from secmon.knowledge.attack.source import AttackSource

F = TypeVar("F", bound=Callable[..., Any])


class RulesetSource:
    """The values of the options. ``name`` is for messages."""

    def __init__(self, paths: Paths | None, folder: Path | None) -> None:
        self._paths = paths
        self._folder = folder or default_ruleset_folder()
        self.name = str(paths.root if paths else self._folder)

    def compile(self) -> Ruleset:
        """Raises RulesetError, ConfigError, OSError, and ClickException when there is no installation."""
        if self._paths is None:
            return compile_sources(collect_folder(self._folder))
        require_installation(self._paths)
        return compile_installation(self._paths)

    def attack(self) -> KnowledgeBase:
        """The ATT&CK in force there; of a folder, that of the product."""
        return AttackSource(self._paths or Paths(self._folder)).current()

    def usable(self) -> Ruleset:
        """As ``compile``, but an error of the ruleset ends the command with one line."""
        try:
            return self.compile()
        except RulesetError as error:
            raise click.ClickException(error.message.detail()) from error


def source_options(command: F) -> F:
    """``--root`` and ``--ruleset``, passed on as the ``source``."""

    @wraps(command)
    def with_source(*args: Any, root: Path | None, folder: Path | None, **options: Any) -> Any:
        if root is not None and folder is not None:
            raise click.UsageError("give --root or --ruleset, not both")
        source = RulesetSource(None if root is None else installation_paths(root), folder)
        return command(*args, source=source, **options)

    kind = FolderType()
    with_folder = click.option("--ruleset", "folder", type=kind, help="Folder with decoders/, rules/ and lists/.")
    with_root = click.option(
        "--root",
        "root",
        type=kind,
        help="Installation whose configuration names the files. Default: the ruleset of secmon itself.",
    )
    return cast("F", with_root(with_folder(with_source)))
