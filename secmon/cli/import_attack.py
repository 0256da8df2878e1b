"""``secmon import attack``: another release of MITRE ATT&CK."""

import click

from secmon.cli.group import echo_json, json_option, root_option
from secmon.cli.source_file import open_source
from secmon.cli.store import require_master
from secmon.common.paths import Paths
from secmon.knowledge.attack.importing import install, read_any, roll_back
from secmon.knowledge.attack.knowledge_base import KnowledgeBase
from secmon.knowledge.attack.records import MAX_BYTES, AttackError


@click.command("attack", short_help="Import a release of MITRE ATT&CK.")
@click.argument("source", metavar="FILE|URL", required=False)
@root_option
@click.option("--rollback", is_flag=True, help="Put back what was in force before the last import.")
@json_option
def attack(source: str | None, paths: Paths, rollback: bool, as_json: bool) -> None:
    """Import tactics, techniques, groups, software and mitigations from the public STIX bundle of ATT&CK (2.0 or 2.1,
    plain or gzip).

    The bundle is checked before anything is replaced. It is in force on this node at once, on the others when it has
    been copied there. What was in force before is kept. Works on the master, running or not.

    \b
    Examples:
      secmon import attack enterprise-attack.json
      secmon import attack https://attack.example.org/enterprise-attack.json --root /opt/secmon
      secmon import attack --rollback

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    if (source is None) is not rollback:
        raise click.UsageError("give a FILE or URL, or --rollback")
    require_master(paths, instead="run the command on the master,")
    if source is None:
        if not roll_back(paths):
            raise click.ClickException("nothing was imported before")
        click.echo("The release before the last import is in force again")
        return
    try:
        with open_source(source, paths, MAX_BYTES) as file:
            base = install(paths, read_any(file))
    except AttackError as error:
        raise click.ClickException(f"{source}: {error}; nothing was changed") from error
    _print(base, as_json=as_json)


def _print(base: KnowledgeBase, *, as_json: bool) -> None:
    counts = {f"{kind}s" if kind != "software" else kind: len(items) for kind, items in base.items.items()}
    counts["tactics"] = len(base.items["tactic"])
    if as_json:
        echo_json({"imported": counts})
    else:
        click.echo("Imported: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
