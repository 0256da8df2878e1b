"""The files of rules and decoders that the configuration names (analysis-api.md 2.5)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secmon.cluster.node import RulesetFile, XmlKind
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.xml import read_xml
from secmon.engine.catalogue.file_kinds import KINDS
from secmon.engine.ruleset.ruleset_section import Folder, Part, RulesetSection, read_section

BLOCK = "ruleset"


@dataclass(frozen=True, slots=True)
class ConfiguredFiles:
    """The ruleset section, and whether the file has one: without it the engine uses defaults."""

    section: RulesetSection
    present: bool

    def part(self, kind: XmlKind) -> Part:
        """Raises 1200, 1500."""
        if not self.present:
            raise SecmonError(KINDS[kind].no_section)
        return self.section.rules if kind == "rule" else self.section.decoders


def read_configured(paths: Paths) -> ConfiguredFiles:
    """Raises ConfigError 1101."""
    document = read_xml(paths.main_config)
    present = any(block.name == BLOCK for root in document.children for block in root.children)
    return ConfiguredFiles(read_section(document, paths.main_config.name), present)


def listed_files(root: Path, part: Part) -> list[RulesetFile]:
    """Files that are included one by one, then those of the folders; each path once."""
    found: dict[str, RulesetFile] = {}
    for path in part.includes:
        where, _, name = path.rpartition("/")
        found.setdefault(path, RulesetFile(name, where, "enabled"))
    for folder in part.folders:
        for file in _members(root, folder, part.excludes):
            found.setdefault(file.path, file)
    return list(found.values())


def _members(root: Path, folder: Folder, excludes: set[str]) -> Iterator[RulesetFile]:
    """Files directly in the folder. Those that the engine excludes are ``disabled``."""
    try:
        with os.scandir(root / folder.path) as entries:
            names = sorted(each.name for each in entries if Path(each.name).suffix == ".xml" and each.is_file())
    except OSError:
        return  # the engine continues without the folder too, with a warning
    for name in names:
        path = f"{folder.path}/{name}"
        left_out = excludes & {name, path} or not folder.pattern.test(path.encode())
        yield RulesetFile(name, folder.path, "disabled" if left_out else "enabled")
