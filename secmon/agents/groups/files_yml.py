"""``etc/shared/files.yml``: group files that are downloaded, and assignments of agents (agent-link.md 7.8)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from secmon.agents.groups.folders import AR_CONF, MERGED
from secmon.agents.groups.merged_files.format import sharable_name
from secmon.agents.names import GROUP_NAME, padded, parse_id
from secmon.common.download import DownloadError, check_url
from secmon.common.errors import MISSING, UNKNOWN, ConfigError, Fault
from secmon.config.yaml import NoAliases

POLL_SECONDS = 1800
MAX_BYTES = 4 << 20

_MAX_POLL = 10 * 365 * 86400


class GroupFiles(NamedTuple):
    """URL by file name, and seconds between two downloads."""

    files: Mapping[str, str]
    poll: int = POLL_SECONDS

    @property
    def merged(self) -> bool:
        """Whether the merged file itself is downloaded, and no other file."""
        return MERGED in self.files


class FilesYml(NamedTuple):
    """The content of the file: downloads by group, and the group of each agent."""

    groups: Mapping[str, GroupFiles] = {}
    agents: Mapping[int, str] = {}


class _Loader(NoAliases, yaml.BaseLoader):
    """Every scalar is a text: 010 is the agent 010 and not the number 8."""


def parse_files_yml(data: bytes, file: str = "files.yml") -> FilesYml:
    """Parse the text. Raises ConfigError for the first fault."""
    if len(data) > MAX_BYTES:
        raise ConfigError(file, "size", len(data), f"{MAX_BYTES} bytes")
    try:
        document = yaml.load(data, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(
            f"{file}:{line}", "YAML", Fault(error.problem or "not readable"), "well-formed YAML"
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(file, "YAML", Fault(str(error).split("\n", 1)[0] or "nested"), "well-formed YAML") from None
    top = _mapping(file, "", document)
    _refuse_unknown(file, "", top, ("groups", "agents"))
    groups = {name: _group(file, name, each) for name, each in _mapping(file, "groups", top.get("groups")).items()}
    return FilesYml(groups, dict(_agent(file, *item) for item in _mapping(file, "agents", top.get("agents")).items()))


def _group(file: str, name: str, value: Any) -> GroupFiles:
    key = f"groups.{name}"
    if not GROUP_NAME.fullmatch(name):
        raise ConfigError(file, "groups", _shown(name), "names of groups")
    group = _mapping(file, key, value)
    _refuse_unknown(file, key, group, ("files", "poll"))
    if "files" not in group:
        raise ConfigError(file, f"{key}.files", MISSING, "addresses by file name")
    poll = group.get("poll", str(POLL_SECONDS))
    if not (
        isinstance(poll, str) and poll.isascii() and poll.isdecimal() and len(poll) < 12 and int(poll) <= _MAX_POLL
    ):
        raise ConfigError(file, f"{key}.poll", _shown(poll), "a whole number of seconds")
    files = _mapping(file, f"{key}.files", group["files"])
    for each, url in files.items():
        _check_file(file, f"{key}.files", each, url)
    return GroupFiles(files, int(poll))


def _check_file(file: str, key: str, name: str, url: Any) -> None:
    plain = sharable_name(name) and "/" not in name and not name.startswith(".") and name != AR_CONF
    if not plain or (name.startswith(MERGED) and name != MERGED):
        raise ConfigError(file, key, _shown(name), f"names of files to share, and {MERGED}")
    try:
        check_url(url if isinstance(url, str) else "")
    except DownloadError as error:
        raise ConfigError(file, f"{key}.{name}", Fault(str(error)), "an address") from None


def _agent(file: str, text: str, group: Any) -> tuple[int, str]:
    number = parse_id(text)
    if not number:
        raise ConfigError(file, "agents", _shown(text), "ids of agents")
    if not (isinstance(group, str) and GROUP_NAME.fullmatch(group)):
        raise ConfigError(file, f"agents.{padded(number)}", _shown(group), "the name of a group")
    return number, group


def _mapping(file: str, key: str, value: Any) -> dict[str, Any]:
    """An absent or empty value is an empty mapping."""
    if value in (None, ""):
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ConfigError(file, key or "document", Fault("not a mapping"), "names with values")
    return value


def _refuse_unknown(file: str, key: str, value: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in value:
        if name not in known:
            raise ConfigError(file, f"{key}.{name[:200]}" if key else name[:200], UNKNOWN, ", ".join(known))


def _shown(value: Any) -> str:
    """A value for a message; nested values are not shown."""
    return value[:200] if isinstance(value, str) else Fault("not a text")
