"""Verification of ``agent.conf`` before it is sent to agents (agent-link.md 7.9)."""

from collections.abc import Mapping

from secmon.agents.agent_conf.modules import MODULES, SERVER_MODULES
from secmon.agents.agent_conf.sections import SECTIONS, SERVER_SECTIONS
from secmon.agents.agent_conf.shapes import Branch, Leaf, Section
from secmon.common.errors import MISSING, UNKNOWN, Fault
from secmon.config.as_json import AGENT_ROOT, section_name
from secmon.config.problems import Problem, Report
from secmon.config.values import Check
from secmon.config.xml import Element, XmlError, parse_xml, refuse_forbidden_references

_FILTERS = frozenset({"name", "os", "profile", "overwrite"})
"""Attributes of a block. Agents match their values by a language of their own, so that any text is valid."""


def verify_agent_conf(data: bytes | str, file: str = "agent.conf") -> Report:
    """Errors and warnings in a group's configuration; ``file`` names it in them. Reads every section as agents do.

    A text that is not well formed yields one error, as nothing after it can be read.
    """
    report = Report(file)
    try:
        document = parse_xml(data, file)
        refuse_forbidden_references(data.decode() if isinstance(data, bytes) else data, file)
    except XmlError as error:
        report.problems.append(Problem(file, error.line, "", "XML", Fault(error.value), error.allowed))
        return report
    verify_document(document, report)
    return report


def verify_document(document: Element, report: Report) -> None:
    """As :func:`verify_agent_conf`, for what ``parse_xml`` returned; the findings by line."""
    for block in document.content:
        if isinstance(block, str):
            if block.strip():
                report.error("", "text", block.strip()[:80], f"elements <{AGENT_ROOT}> and comments")
        elif block.name != AGENT_ROOT:
            report.error(block.name, "", UNKNOWN, f"elements <{AGENT_ROOT}>", block)
        else:
            _check_attributes(AGENT_ROOT, "", block, dict.fromkeys(_FILTERS), report)
            for section in block.children:
                _check_section(section, report)
    report.problems.sort(key=lambda problem: problem.line or 0)


def _check_section(section: Element, report: Report) -> None:
    is_module = section.name == "wodle"
    known, elsewhere = (MODULES, SERVER_MODULES) if is_module else (SECTIONS, SERVER_SECTIONS)
    name = section_name(section)
    if name is None:
        report.error("wodle", "@name", MISSING, f"one of {', '.join(sorted(known))}", section)
    elif name in elsewhere:
        report.warn(name, "agents do not read this section", section)
    elif name not in known:
        report.error(name, "", UNKNOWN, f"the sections {', '.join(sorted(known))}", section)
    else:
        rules = known[name]
        _check_attributes(name, "", section, {"name": None} if is_module else {}, report)
        _check_options(name, "", section, rules.options, report)
        _check_presence(name, section, rules, report)


def _check_options(
    section: str, prefix: str, element: Element, known: Mapping[str, Leaf | Branch], report: Report
) -> None:
    for option in element.children:
        name, rule = prefix + option.name, known.get(option.name)
        if rule is None:
            report.error(section, name, UNKNOWN, f"the options {', '.join(known)}", option)
            continue
        _check_attributes(section, name, option, rule.attributes, report)
        for missing in [each for each in rule.required if each not in option.attributes]:
            report.error(section, f"{name}.@{missing}", MISSING, _in_words(rule.attributes[missing]), option)
        if isinstance(rule, Branch):
            _check_options(section, f"{name}.", option, rule.options, report)
        elif option.has_children and not rule.markup:
            report.error(section, name, f"<{next(option.children).tag}>", rule.check.allowed, option)
        elif not rule.markup:
            _check_value(section, name, option.text or "", rule.check, option, report)


def _check_attributes(
    section: str, option: str, element: Element, known: Mapping[str, Check | None], report: Report
) -> None:
    """``known``: attributes with the check of their value; None takes any text."""
    prefix = f"{option}." if option else ""
    for name, value in element.attributes.items():
        if name not in known:
            allowed = f"the attributes {', '.join(sorted(known))}" if known else "no attributes"
            report.error(section, f"{prefix}@{name}", UNKNOWN, allowed, element)
        elif (check := known[name]) is not None:
            _check_value(section, f"{prefix}@{name}", value, check, element, report)


def _check_value(section: str, key: str, value: str, check: Check, at: Element, report: Report) -> None:
    if not check.test(value.strip()):
        report.error(section, key, value.strip()[:200], check.allowed, at)


def _check_presence(name: str, section: Element, rules: Section, report: Report) -> None:
    """Check for missing options and for options that exclude each other."""
    values = {option.name: (option.text or "").strip() for option in section.children}
    for missing in [each for each in rules.required if each not in values]:
        report.error(name, missing, MISSING, _in_words(rules.options[missing]), section)
    if rules.extra is not None and (problem := rules.extra(values)):
        report.error(name, *problem, section)


def _in_words(rule: Leaf | Branch | Check | None) -> str:
    match rule:
        case Leaf():
            return rule.check.allowed
        case Check():
            return rule.allowed
    return "any"
