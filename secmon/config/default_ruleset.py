"""The default ruleset of the product."""

import sysconfig
from pathlib import Path

_IN_SOURCES = Path(__file__).resolve().parents[2] / "ruleset"
_INSTALLED = Path(sysconfig.get_path("data")) / "share/secmon/ruleset"

FOLDERS = ("decoders", "rules", "lists", "sca")


def default_ruleset_folder() -> Path:
    """The folder with :data:`FOLDERS`: of the source tree, else where packages put data."""
    return _IN_SOURCES if (_IN_SOURCES / "rules").is_dir() else _INSTALLED


def default_ruleset_files() -> dict[str, bytes]:
    """Contents by path below the ruleset's folder, such as ``rules/0000-roots_rules.xml``. Raises OSError."""
    folder = default_ruleset_folder()
    return {
        f"{name}/{file.name}": file.read_bytes()
        for name in FOLDERS
        for file in sorted((folder / name).glob("*"))
        if file.is_file() and not file.name.startswith((".", "_"))
    }
