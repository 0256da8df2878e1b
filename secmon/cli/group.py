"""Common parts of all commands: the group that loads them, their options and output."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from secmon.common.errors import SecmonError, os_text
from secmon.common.logfile.text import escape, one_line
from secmon.common.paths import Paths
from secmon.common.privileges import root_started
from secmon.daemons.daemon import StartError, StartFailed
from secmon.daemons.service_user import act_as_service_user
from secmon.daemons.supervisor_lock import AlreadyRunning

DEFAULT_ROOT = Path("/opt/secmon")
F = TypeVar("F", bound=Callable[..., Any])

MAX_ROOT = 107 - len("/queue/cluster/c-internal.sock")
"""Bytes of an installation folder's path: the kernel limits those of the sockets below it."""


class LazyGroup(click.Group):
    """A group that imports a command when it is used, so that each starts quickly.

    Errors with a code end in one line and status 1, never in a traceback.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._lazy:
            module, _, attribute = self._lazy[cmd_name].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SecmonError as error:
            raise _click_error(error) from error
        except (AlreadyRunning, StartError, StartFailed) as error:
            raise click.ClickException(str(error)) from error
        except (BrokenPipeError, click.ClickException, click.Abort, click.exceptions.Exit):
            raise  # click says what there is to say
        except PermissionError as error:
            hint = "" if root_started() else "; run this as root or as the service user"
            raise click.ClickException(f"{os_text(error)}{hint}") from error
        except OSError as error:
            raise click.ClickException(os_text(error)) from error
        except Exception as error:
            from secmon.common.sqlite.faults import StoreFault  # not before: most commands use no store

            if isinstance(error, StoreFault):
                raise _click_error(error.as_error()) from error
            raise


def _click_error(error: SecmonError) -> click.ClickException:
    return click.ClickException(escape(error.message) + (f". {error.remediation}." if error.remediation else ""))


class FolderType(click.Path):
    """A folder that may not exist yet. The empty text is rejected: it would be the current folder."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As ``click.Path``."""
        if value == "":
            self.fail("the name of the folder is empty; the current folder is .", param, ctx)
        return super().convert(value, param, ctx)


class NumberType(click.FloatRange):
    """A number within a range. NaN, which no bound excludes, is rejected."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As ``click.FloatRange``."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def root_option(command: F) -> F:
    """``--root DIR``, passed on as the :class:`Paths` ``paths``."""
    return click.option(
        "--root",
        "paths",
        type=FolderType(),
        envvar="SECMON_ROOT",
        default=DEFAULT_ROOT,
        show_default=True,
        show_envvar=True,
        callback=lambda _context, _parameter, value: installation_paths(value),
        help="Installation folder.",
    )(command)


def json_option(command: F) -> F:
    """``--json``, passed on as ``as_json``."""
    return click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON.")(command)


def installation_paths(root: Path) -> Paths:
    """Paths of ``root``, absolute; a usage error when no socket could be opened below it."""
    absolute = Path(os.path.abspath(root))
    if len(os.fsencode(absolute)) > MAX_ROOT:
        raise click.BadParameter(f"{absolute}: the path must not be longer than {MAX_ROOT} bytes")
    return Paths(absolute)


def require_installation(paths: Paths) -> None:
    """Fail with a message if there is no installation; afterwards root has the rights of the installation's user.

    Files that the operator names are the operator's: ``common.privileges.as_root``.
    """
    act_as_service_user(paths)
    if not paths.main_config.exists():
        raise click.ClickException(f"{paths.root} holds no installation; make one: secmon init {paths.root}")


def echo_line(text: str, *, err: bool = False) -> None:
    """Print a line; what came from another node or the service user must not control root's terminal."""
    click.echo(one_line(text), err=err)


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns under their names in capitals, each as wide as its widest cell. As :func:`echo_line`."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (header, *shown)) for column in range(len(header))]
    for row in ([name.upper() for name in header], *shown):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def echo_json(data: object) -> None:
    """``{"error": 0, "data": ...}`` on standard output (manager.md 16)."""
    click.echo(json.dumps({"error": 0, "data": data}, indent=2, ensure_ascii=False))
