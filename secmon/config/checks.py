"""Whether a node's configuration files are valid, all of them at once (manager.md 6 and 19, row 8)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from secmon.common.errors import ConfigError, Fault, SecmonError
from secmon.common.file_io import read_regular
from secmon.common.paths import Paths
from secmon.config import settings
from secmon.config.api import ApiConfig, load_api_config
from secmon.config.auth import read_auth
from secmon.config.main import Problem, check_main_config, load_main_config, validate_main_config
from secmon.config.options import check_internal_options, load_internal_options, unknown_options
from secmon.config.port_check import check_ports
from secmon.config.remote import load_remote
from secmon.config.yaml import PlainLoader

MAX_VALUE = 200
"""Characters of a wrong value that are shown."""
MOST_WARNINGS = 30
"""Warnings that an answer of the API holds."""


def validate_installation(paths: Paths) -> list[Problem]:
    """Everything that is wrong with main configuration, api.yaml and internal options; an empty list means valid.

    Blocks on the disk. Nothing that a start checks is left out: the readers are the same.
    """
    problems = validate_main_config(paths)
    problems += map(_problem, _check_api_config(paths))
    problems += map(_problem, check_internal_options(paths))
    if not problems:  # otherwise there is no configuration with ports
        problems += map(_problem, _collisions(paths))
    return problems


def installation_warnings(paths: Paths) -> list[str]:
    """Warnings about the same files, without errors. Blocks on the disk."""
    try:
        api = load_api_config(paths).warnings
    except ConfigError:
        api = ()
    return [*api, *check_main_config(paths).warnings, *unknown_options(paths)]


def bounded(warnings: Sequence[str]) -> list[str]:
    """As many warnings as one answer holds, and a hint to the others."""
    more = len(warnings) - MOST_WARNINGS
    return [*warnings[:MOST_WARNINGS], f"{more} more warnings: run secmon config check"] if more > 0 else [*warnings]


def invalid(problems: Iterable[Problem]) -> SecmonError:
    """Error 1908 that names all ``problems``."""
    return SecmonError(1908, ", ".join(dict.fromkeys(map(str, problems))))


def _problem(error: ConfigError) -> Problem:
    value = error.value if isinstance(error.value, Fault) else str(error.value)
    if len(value) > MAX_VALUE:
        value = type(value)(value[:MAX_VALUE])
    return Problem(error.file, None, "", error.key, value, error.allowed)


def _collisions(paths: Paths) -> Iterator[ConfigError]:
    api, main, options = load_api_config(paths), load_main_config(paths), load_internal_options(paths)
    return check_ports(paths, api, main.cluster, options, auth=read_auth(main), remote=load_remote(paths))


def _check_api_config(paths: Paths) -> Iterator[ConfigError]:
    try:
        load_api_config(paths)
    except ConfigError as first:
        found = list(_wrong_keys(paths))
        if first.key not in (error.key for error in found):  # not about a key: syntax, or a key given twice
            yield first
        yield from found


def _wrong_keys(paths: Paths) -> Iterator[ConfigError]:
    """The errors of all keys: after each one the file is checked again without the key."""
    try:
        raw: Any = yaml.load(read_regular(paths.api_config, follow=True), PlainLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return
    while isinstance(raw, dict):
        try:
            settings.bind(ApiConfig, raw, str(paths.api_config), [])
        except ConfigError as error:
            yield error
            if not _drop(raw, error.key):
                return
        else:
            return


def _drop(raw: dict[Any, Any], key: str) -> bool:
    """Remove the dotted ``key``; whether it was there. Names in the file may hold dots themselves."""
    for name, value in raw.items():
        if str(name) == key:
            del raw[name]
            return True
        if isinstance(value, dict) and key.startswith(f"{name}.") and _drop(value, key.removeprefix(f"{name}.")):
            return True
    return False
