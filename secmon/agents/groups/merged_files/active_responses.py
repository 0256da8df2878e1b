"""``etc/shared/ar.conf``: the active responses that agents may run (agent-link.md 7.7)."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from secmon.agents.groups.folders import AR_CONF, FILE_MODE
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.main import MainConfig

_log = logging.getLogger("secmon.modulesd.groups")

# Agents know their restart under these names.
_RESTARTS = (
    "restart-ossec0 - restart-ossec.sh - 0",
    "restart-ossec0 - restart-ossec.cmd - 0",
    "restart-wazuh0 - restart-ossec.sh - 0",
    "restart-wazuh0 - restart-ossec.cmd - 0",
    "restart-wazuh0 - restart-wazuh - 0",
    "restart-wazuh0 - restart-wazuh.exe - 0",
)


def active_response_table(config: MainConfig) -> str:
    """The table's text: the restarts, then a line for each active response that is not disabled, in their order.

    A response that names an unknown command, or one with control characters, is left out with a warning.
    """
    commands = dict(_commands(config))
    lines = list(_RESTARTS)
    for response in _objects(config, "active-response"):
        name = _text(response, "command")
        if not name or _text(response, "disabled") == "yes":
            continue
        if name not in commands:
            _log.warning("An active response names the command %r, which is not defined", name)
            continue
        executable, timed = commands[name]
        timeout = _text(response, "timeout")
        seconds = int(timeout) if timed and timeout.isascii() and timeout.isdecimal() else 0
        line = f"{name}{seconds} - {executable} - {seconds}"
        if any(ord(character) < 32 for character in line):
            _log.warning("The active response %r is left out: it contains control characters", name)
            continue
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def write_active_responses(paths: Paths, config: MainConfig) -> bool:
    """Update the file; whether it changed. Raises OSError."""
    file, data = paths.shared / AR_CONF, active_response_table(config).encode()
    try:
        if file.read_bytes() == data and not file.is_symlink():
            return False
    except FileNotFoundError:
        pass
    write_file(file, data, FILE_MODE)
    return True


def _commands(config: MainConfig) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Name to executable and whether it takes a timeout; of repeated names the last."""
    for command in _objects(config, "command"):  # module sections of this name have no executable
        name, executable = _text(command, "name"), _text(command, "executable")
        if name and executable:
            yield name, (executable, _text(command, "timeout_allowed") == "yes")


def _objects(config: MainConfig, section: str) -> Iterator[Mapping[str, Any]]:
    found = config.sections.get(section)
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict):
            yield each


def _text(section: Mapping[str, Any], option: str) -> str:
    value = section.get(option)
    return value.strip() if isinstance(value, str) else ""
