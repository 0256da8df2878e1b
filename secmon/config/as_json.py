"""XML configuration to JSON: the algorithm of manager.md 2.2 to 2.6, selection (3) and masking of secrets (19).

Leaf values are texts exactly as written; ``None`` is an option that has attributes but no text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from secmon.common.errors import SecmonError
from secmon.config.xml import Element, XmlError

Json: TypeAlias = "str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

MAIN_ROOT = "ossec_config"  # the root element of existing files
AGENT_ROOT = "agent_config"
MASK = "*****"


class SectionRule(NamedTuple):
    """How a section repeats (``duplicate``, ``merge`` or ``last``) and which of its options are lists (2.3)."""

    repeats: str
    lists: frozenset[str] = frozenset()
    known: bool = True


def _rule(repeats: str, *lists: str) -> SectionRule:
    return SectionRule(repeats, frozenset(lists))


SECTIONS: Mapping[str, SectionRule] = {
    **dict.fromkeys(
        ("active-response", "agentless", "remote", "syslog_output", "integration", "command"), _rule("duplicate")
    ),
    "localfile": _rule("duplicate", "ignore"),
    "labels": _rule("duplicate", "label"),
    **dict.fromkeys(("alerts", "client", "database_output", "syscollector", "auth"), _rule("merge")),
    **dict.fromkeys(("email_alerts", "reports"), _rule("merge", "email_to")),
    "global": _rule("merge", "white_list"),
    **dict.fromkeys(("open-scap", "cis-cat"), _rule("merge", "content")),
    "rootcheck": _rule(
        "merge",
        *("rootkit_files", "rootkit_trojans", "windows_audit", "system_audit", "windows_apps", "windows_malware"),
    ),
    "ruleset": _rule(
        "merge",
        *("include", "rule", "rule_dir", "decoder", "decoder_dir", "list", "rule_exclude", "decoder_exclude"),
    ),
    "syscheck": _rule("merge", "directories", "ignore", "nodiff"),
    "osquery": _rule("merge", "pack"),
    "sca": _rule("merge", "policies"),
    "silent_sources": _rule("merge", "source"),
    "cluster": _rule("last", "nodes"),
    "vulnerability-detection": _rule("last"),
    "indexer": _rule("last", "hosts"),
}
_UNKNOWN = SectionRule("duplicate", known=False)

_LISTS_OF_TEXTS = {("cluster", "nodes"), ("sca", "policies"), ("indexer", "hosts")}
_SECRETS = frozenset(
    {"api_key", "password", "secret_key", "access_key", "application_key", "account_key"}
    | {"api_token", "client_secret", "secret_value", "shared_key"}
)
_SECTION_SECRETS = {
    "cluster": frozenset({"key"}),
    "integration": frozenset({"hook_url"}),
    "global": frozenset({"smtp_password"}),
}  # hook URLs carry tokens


def convert_main(document: Element, *, complete: bool = True, code: int = 1101, file: str = "ossec.conf") -> JsonObject:
    """The main configuration as JSON; ``document`` is what ``parse_xml`` returned.

    ``complete`` adds the sections that the conversion table does not know, each as a list of objects where an option
    given several times is a list: nothing of the file is lost. Raises XmlError ``code`` for a wodle without a name.
    """
    sections = (section for root in document.children if root.name == MAIN_ROOT for section in root.children)
    return _convert(sections, complete=complete, code=code, file=file)


def convert_agent(
    document: Element, *, complete: bool = True, code: int = 1101, file: str = "agent.conf"
) -> list[Json]:
    """A group's agent.conf as a list of ``{"filters": ..., "config": ...}`` (2.6); errors as ``convert_main``."""
    blocks: dict[tuple[tuple[str, str], ...], list[Element]] = {}
    for root in document.children:
        if root.name == AGENT_ROOT:
            blocks.setdefault(tuple(sorted(root.attributes.items())), []).extend(root.children)
    return [
        {"filters": {**dict(filters)}, "config": _convert(sections, complete=complete, code=code, file=file)}
        for filters, sections in blocks.items()
    ]


def section_name(section: Element) -> str | None:
    """The key of a section: its tag, or the name of a wodle; None for a wodle without one."""
    return section.attributes.get("name", "").strip().lower() or None if section.name == "wodle" else section.name


def _convert(sections: Iterable[Element], *, complete: bool, code: int, file: str) -> JsonObject:
    result: JsonObject = {}
    for section in sections:
        key = section_name(section)
        if key is None:
            raise XmlError(file, section.line, "a wodle without attribute name", code)
        rule = SECTIONS.get(key, _UNKNOWN)
        if rule.known or complete:
            _merge(result, key, rule, _options(key, section, rule))
    return result


def _merge(result: JsonObject, key: str, rule: SectionRule, value: JsonObject) -> None:
    earlier = result.get(key)
    if rule.repeats == "duplicate":
        if isinstance(earlier, list):
            earlier.append(value)
        else:
            result[key] = [value]
    elif rule.repeats == "merge" and isinstance(earlier, dict):
        for option, new in value.items():
            old = earlier.get(option)
            if option in rule.lists and isinstance(old, list) and isinstance(new, list):
                old.extend(new)
            else:
                earlier[option] = new
    else:
        result[key] = value


def _options(key: str, section: Element, rule: SectionRule) -> JsonObject:
    result: JsonObject = {}
    repeated: set[str] = set()
    for option in section.children:
        if not option.content and not option.attributes:
            continue
        value, name = _option(key, option), option.name
        old = result.get(name)
        if name in rule.lists:
            values: list[Json] = value if isinstance(value, list) else [value]
            if isinstance(old, list):
                old.extend(values)
            else:
                result[name] = values
        elif not rule.known and name in repeated and isinstance(old, list):
            old.append(value)
        elif not rule.known and name in result:
            result[name] = [old, value]
            repeated.add(name)
        else:
            result[name] = value
    return result


def _option(key: str, option: Element) -> Json:
    """Table 2.4: the first row that applies."""
    special = _SPECIAL.get((key, option.name))
    if special is not None:
        return special(option)
    if (key, option.name) in _LISTS_OF_TEXTS:
        return [child.text for child in option.children]
    if key == "open-scap" and option.attributes:
        own = option.text if option.text and option.text.strip() else None
        return {**option.attributes, "profiles": [own, *(child.text for child in option.children)]}
    return _generic(option)


def _generic(option: Element) -> Json:
    if option.has_children:
        result: dict[str, Json] = {**option.attributes}
        for child in option.children:
            values = result.get(child.name)
            if isinstance(values, list):
                values.append(_generic(child))
            else:
                result[child.name] = [_generic(child)]
        return result
    return {**option.attributes, "item": option.text} if option.attributes else option.text


def _directories(option: Element) -> Json:
    paths = (path.strip() for path in (option.text or "").split(","))
    return [{**option.attributes, "path": path} for path in paths if path]


def _children_or_lists(option: Element) -> Json:
    def value(text: str | None) -> Json:
        return [*text.split(",")] if text and text.find(",") > 0 else text

    return {child.name: value(child.text) for child in option.children}


def _label(option: Element) -> Json:
    return {"value": option.text, **option.attributes}


def _query(option: Element) -> Json:
    """The XML of the query on one line; a backslash before ``<`` or ``>``, which older readers needed, is removed."""
    query = re.sub(r"\\(&[lg]t;)", r"\1", _one_line(option.inner_xml))
    return {**option.attributes, "item": query} if option.attributes else query


def _one_line(text: str) -> str:
    """``text`` without line breaks and the white space around them. A pattern for that takes quadratic time."""
    first, *more = re.split(r"[\r\n]", text)
    return "".join([first.rstrip(), *map(str.strip, more[:-1]), more[-1].lstrip()]) if more else first


def _protocol(option: Element) -> Json:
    return [word.strip() for word in (option.text or "").split(",")]


_SPECIAL: Mapping[tuple[str, str], Callable[[Element], Json]] = {
    ("syscheck", "directories"): _directories,
    ("syscheck", "synchronization"): _children_or_lists,
    ("syscheck", "whodata"): _children_or_lists,
    ("labels", "label"): _label,
    ("localfile", "query"): _query,
    ("remote", "protocol"): _protocol,
}


def select(config: JsonObject, section: str | None = None, field: str | None = None) -> JsonObject:
    """The part asked for (manager.md 3); ``field`` without ``section`` is ignored.

    Raises SecmonError 1102 (section without a conversion rule), 1106 (not in the file), 1103 (field absent, or absent
    from any element of a section that is a list).
    """
    if section is None:
        return config
    if section not in SECTIONS:
        raise SecmonError(1102, section)
    if section not in config:
        raise SecmonError(1106, section)
    value = config[section]
    if field is None:
        return {section: value}
    if isinstance(value, list):
        return {section: [_field(each, section, field) for each in value]}
    return {section: _field(value, section, field)}


def _field(value: Json, section: str, field: str) -> Json:
    if not isinstance(value, dict) or field not in value:
        raise SecmonError(1103, f"{section}: {field}")
    return {field: value[field]}


def mask_secrets(config: JsonObject) -> JsonObject:
    """A copy where keys, passwords and tokens read ``*****`` (manager.md 19, row 5)."""
    return {
        section: _masked(value, _SECRETS | _SECTION_SECRETS.get(section, frozenset()))
        for section, value in config.items()
    }


def _masked(value: Json, secrets: frozenset[str]) -> Json:
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    if isinstance(value, dict):
        return {key: MASK if key in secrets and each is not None else _masked(each, secrets)
                for key, each in value.items()}  # fmt: skip
    return value
