"""``etc/shared/ar.conf``: the active responses that agents may run (agent-link.md 7.7)."""

from secmon.agents.groups.folders import AR_CONF, FILE_MODE
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.responses import read_responses

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
    """Update the file; whether it changed. Raises OSError."""
    file, data = paths.shared / AR_CONF, active_response_table(config).encode()
    try:
        if file.read_bytes() == data and not file.is_symlink():
            return False
    except FileNotFoundError:
        pass
    write_file(file, data, FILE_MODE)
    return True
