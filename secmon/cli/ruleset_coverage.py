"""``secmon ruleset coverage``: which techniques of MITRE ATT&CK the rules name."""

import json
from collections import Counter
from typing import Any

import click

from secmon import __version__
from secmon.cli.ruleset_source import RulesetSource, source_options
from secmon.engine.ruleset.compiled import Ruleset
from secmon.knowledge.attack.knowledge_base import KnowledgeBase


@click.command(short_help="Show which ATT&CK techniques the rules name.")
@source_options
@click.option("--navigator", is_flag=True, help="Print a layer for the ATT&CK Navigator (JSON).")
def coverage(source: RulesetSource, navigator: bool) -> None:
    """Count the rules for each technique of MITRE ATT&CK, by tactic.

    \b
    Examples:
      secmon ruleset coverage --root /opt/secmon
      secmon ruleset coverage --navigator > layer.json

    Exit status: 0.
    """
    base, rules = source.attack(), technique_counts(source.usable())
    if navigator:
        click.echo(json.dumps(layer(base, rules), indent=2))
        return
    for tactic in base.items["tactic"]:
        name = tactic["name"]
        found = {each: one for each, one in base.techniques.items() if tactic["external_id"] in one.tactics}
        covered = [each for each in found if rules[each]]
        click.echo(f"{name}: {len(covered)} of {len(found)} techniques")
        for each in sorted(covered):
            click.echo(f"  {each:<10} {rules[each]:>4} rules  {found[each].name}")
    named = [each for each in base.techniques if rules[each]]
    click.echo(f"{source.name}: {len(named)} of {len(base.techniques)} techniques are named by rules")


def technique_counts(compiled: Ruleset) -> Counter[str]:
    """Rules above level 0 by the id of the technique that they name."""
    return Counter(
        technique
        for rule in compiled.rules.by_id.values()
        if rule.level
        for technique in {one.technique for one in rule.mitre}
    )


def layer(base: KnowledgeBase, rules: Counter[str]) -> dict[str, Any]:
    """A layer of the ATT&CK Navigator, format 4.5: the score of a technique is its number of rules."""
    named = [each for each in sorted(base.techniques) if rules[each]]
    return {
        "name": "Rules of secmon",
        "versions": {"layer": "4.5", "navigator": "4.9.1"},
        "domain": "enterprise-attack",
        "description": f"Techniques that rules of secmon {__version__} name",
        "techniques": [{"techniqueID": each, "score": rules[each]} for each in named],
        "gradient": {"colors": ["#ffffff", "#2d7dd2"], "minValue": 0, "maxValue": max(rules.values(), default=1)},
    }
