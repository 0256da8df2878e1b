"""``etc/shared/ar.conf``: the active responses that agents may run (agent-link.md 7.7)."""

import logging
from pathlib import Path

from secmon.agents.groups.folders import AR_CONF, FILE_MODE
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.responses import read_responses

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
    """The table's text: the restarts, then a line for each active response that is not disabled, in their order."""
    own = [f"{one.name} - {one.command.executable} - {one.timeout}" for one in read_responses(config)]
    return "".join(f"{line}\n" for line in (*_RESTARTS, *own))


def write_active_responses(paths: Paths, config: MainConfig) -> bool:
    """Update the file; whether it changed. A failure is logged: what it had before holds."""
    file, data = paths.shared / AR_CONF, active_response_table(config).encode()
    try:
        if _content(file) == data and not file.is_symlink():
            return False
        write_file(file, data, FILE_MODE)
    except OSError as error:
        _log.error("The table of active responses could not be written: %s", error)
        return False
    return True


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
