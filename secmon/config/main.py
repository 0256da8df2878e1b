"""The main configuration of a node (``etc/ossec.conf``): typed where the product uses it, validated as a whole."""

from typing import Any

import msgspec

from secmon.common.errors import ConfigError, Fault
from secmon.common.paths import Paths
from secmon.config.as_json import MAIN_ROOT, Json, convert_main
from secmon.config.cluster import NO_NODE, ClusterSection, read_cluster
from secmon.config.effects import warn_of_idle
from secmon.config.problems import Problem, Report
from secmon.config.template import AgentPorts, main_config_template
from secmon.config.validation import check_sections
from secmon.config.values import seconds
from secmon.config.xml import Element, XmlError, parse_xml, read_xml

__all__ = [
    "MAIN_ROOT",
    "NO_NODE",
    "AgentPorts",
    "ClusterSection",
    "MainConfig",
    "Problem",
    "Report",
    "check_main_config",
    "load_main_config",
    "main_config_template",
    "parse_main_config",
    "validate_main_config",
]


class MainConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``sections`` is the complete JSON form (``convert.convert_main``)."""

    cluster: ClusterSection
    sections: dict[str, Any] = msgspec.field(default_factory=dict)

    def text(self, section: str, *path: str, default: str = "") -> str:
        """The text at ``section.path``; of a list on the way, that of the last element that has it."""
        found = list(_leaves(self.sections.get(section), path))
        return found[-1].strip() if found else default

    def flag(self, section: str, *path: str, default: bool) -> bool:
        """A yes or no option."""
        return self.text(section, *path, default="yes" if default else "no") == "yes"

    def integer(self, section: str, *path: str, default: int) -> int:
        """A whole number; the default when the option is absent or no number."""
        text = self.text(section, *path)
        return int(text) if text.isdecimal() and text.isascii() else default

    def seconds(self, section: str, *path: str, default: int) -> int:
        """A time in seconds, written with or without a suffix s, m, h, d or w."""
        value = seconds(self.text(section, *path))
        return default if value is None else value


def _leaves(value: Json, path: tuple[str, ...]) -> list[str]:
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each, path)]
    if isinstance(value, dict):
        return _leaves(value.get(path[0] if path else "item"), path[1:])
    return [value] if value is not None and not path else []


def load_main_config(paths: Paths) -> MainConfig:
    """Read the node's main configuration.

    Raises ConfigError 1101 when the file is absent or not well formed, 3004 when its cluster section is not valid.
    Mistakes in other sections do not stop a start; ``validate_main_config`` finds them.
    """
    return _typed(read_xml(paths.main_config), str(paths.main_config))


def parse_main_config(data: bytes | str, file: str = "ossec.conf") -> MainConfig:
    """As ``load_main_config``, from text."""
    return _typed(parse_xml(data, file, code=1101), file)


def _typed(document: Element, file: str) -> MainConfig:
    roots = (root for root in document.children if root.name == MAIN_ROOT)
    report = Report(file)
    cluster = read_cluster([each for root in roots for each in root.children if each.name == "cluster"], report)
    if report.problems:
        first = report.problems[0]
        allowed = "; ".join([first.allowed, *(str(other) for other in report.problems[1:])])
        raise ConfigError(f"{file}:{first.line}", f"cluster.{first.key}", first.value, allowed, code=3004)
    sections = convert_main(document, file=file)
    return MainConfig(cluster=cluster, sections=sections)


def check_main_config(source: Paths | bytes | str, *, file: str = "ossec.conf") -> Report:
    """Errors and warnings of a main configuration: the node's own, or a text that ``file`` names.

    A text that is not well formed yields one error, as nothing after it can be read.
    """
    report = Report(str(source.main_config) if isinstance(source, Paths) else file)
    try:
        document = read_xml(source.main_config) if isinstance(source, Paths) else parse_xml(source, file)
    except ConfigError as error:
        line = error.line if isinstance(error, XmlError) else None
        report.problems.append(Problem(report.file, line, "", error.key, Fault(error.value), error.allowed))
        return report
    sections = check_sections(document, report)
    read_cluster(sections.get("cluster", []), report)
    warn_of_idle(sections, report)
    report.problems.sort(key=lambda problem: problem.line or 0)
    return report


def validate_main_config(source: Paths | bytes | str, *, file: str = "ossec.conf") -> list[Problem]:
    """Everything that is wrong with a main configuration; an empty list means valid. See ``check_main_config``."""
    return check_main_config(source, file=file).problems
