"""The counts of ``secmon ruleset stats``: levels, groups, files, standards and ATT&CK."""

import re
from collections import Counter
from collections.abc import Collection

from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset
from secmon.knowledge.attack.knowledge_base import KnowledgeBase

Counts = dict[str, dict[str, int]]
_REQUIREMENT = re.compile(r"(pci_dss|gdpr|hipaa|nist_800_53|tsc|gpg13)_.")
"""A group that names a requirement of a standard (analysis-api.md 2.3)."""


def counts_of(compiled: Ruleset, attack: KnowledgeBase) -> Counts:
    """Rules by level, group, file, standard and its requirements, the greatest number first, and ATT&CK."""
    rules = sorted(compiled.rules.by_id.values(), key=lambda rule: (rule.level, rule.id))
    groups = Counter(name for rule in rules for name in groups_of(rule))
    requirements = {name: number for name, number in groups.most_common() if _REQUIREMENT.match(name)}
    return {
        "levels": dict(Counter(str(rule.level) for rule in rules)),
        "groups": {name: number for name, number in groups.most_common() if name not in requirements},
        "standards": dict(Counter(name for rule in rules for name in _standards(rule)).most_common()),
        "requirements": requirements,
        "attack": _attack(rules, attack),
        "files": dict(Counter(rule.file for rule in rules).most_common()),
    }


def groups_of(rule: Rule) -> set[str]:
    return {name for name in rule.groups.decode("utf-8", "replace").split(",") if name}


def _standards(rule: Rule) -> set[str]:
    return {found[1] for name in groups_of(rule) if (found := _REQUIREMENT.match(name))}


def _attack(rules: Collection[Rule], attack: KnowledgeBase) -> dict[str, int]:
    """Rules above level 0 that name techniques, and the techniques in use that one of them names."""
    named = [{one.technique for one in rule.mitre} for rule in rules if rule.level and rule.mitre]
    techniques = set().union(*named) & attack.techniques.keys()
    return {"rules": len(named), "techniques": len(techniques), "techniques in use": len(attack.techniques)}
