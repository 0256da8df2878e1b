"""The ``<ruleset>`` section of the main configuration: which files belong to the ruleset (ruleset.md 1.2)."""

from dataclasses import dataclass, field

from secmon.common.errors import ConfigError
from secmon.config.main import MAIN_ROOT
from secmon.config.xml import Element
from secmon.engine.matching import Expression, PatternError, compile_expression

DECODERS, RULES = "ruleset/decoders", "ruleset/rules"
DEFAULT_PATTERN = ".xml$"


@dataclass(frozen=True, slots=True)
class Folder:
    """Each file directly in ``path`` whose path matches ``pattern``."""

    path: str
    pattern: Expression


@dataclass(slots=True)
class Part:
    """The options for decoders, or for rules; paths are relative to the installation."""

    folders: list[Folder] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    excludes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class RulesetSection:
    """All ``<ruleset>`` sections of a configuration together."""

    decoders: Part = field(default_factory=Part)
    rules: Part = field(default_factory=Part)
    lists: list[str] = field(default_factory=list)


def read_section(document: Element, file: str) -> RulesetSection:
    """The section of a main configuration that is parsed already. Raises ConfigError 1101."""
    section = RulesetSection()
    for root in (each for each in document.children if each.name == MAIN_ROOT):
        for block in (each for each in root.children if each.name == "ruleset"):
            for option in block.children:
                _read_option(section, option, file)
    for part, usual in ((section.decoders, DECODERS), (section.rules, RULES)):
        if not part.folders:
            part.folders.append(Folder(usual, compile_expression("osregex", DEFAULT_PATTERN.encode())))
    return section


def _read_option(section: RulesetSection, option: Element, file: str) -> None:
    value = (option.text or "").strip()
    kind, _, what = option.name.partition("_")
    part = {"decoder": section.decoders, "rule": section.rules}.get(kind)
    if option.name == "list":
        section.lists.append(_with_folder(value.removesuffix(".cdb"), RULES))
    elif part is not None and what == "dir":
        part.folders.append(Folder(value.rstrip("/"), _pattern(option, file)))
    elif part is not None and what == "include":
        part.includes.append(_with_folder(value, DECODERS if kind == "decoder" else RULES))
    elif part is not None and what == "exclude":
        part.excludes.add(value)
    else:
        allowed = "decoder_dir, rule_dir, decoder_include, rule_include, decoder_exclude, rule_exclude, list"
        raise ConfigError(f"{file}:{option.line}", "ruleset", option.tag, allowed, code=1101)


def _pattern(option: Element, file: str) -> Expression:
    text = option.attributes.get("pattern", "" if option.attributes else DEFAULT_PATTERN)
    try:
        if text:
            return compile_expression("osregex", text.encode())
    except PatternError as error:
        text = f"{text} ({error})"
    raise ConfigError(f"{file}:{option.line}", f"ruleset.{option.tag}.pattern", text, "a pattern", code=1101)


def _with_folder(path: str, folder: str) -> str:
    return path if "/" in path else f"{folder}/{path}"
