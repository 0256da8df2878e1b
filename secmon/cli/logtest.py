"""``secmon logtest``: how the analysis engine decodes and matches a log, step by step."""

import socket
import sys
import tempfile
from pathlib import Path

import click

from secmon.cli.ruleset_source import RulesetSource, source_options
from secmon.common.clock import SystemClock
from secmon.engine.engine import Engine, Verdict
from secmon.engine.event import Event
from secmon.engine.input.predecode import Message
from secmon.engine.matching import MatchLimit
from secmon.engine.memory.state import State
from secmon.engine.output.describe import describe
from secmon.engine.rules.rule import Rule

_ROUTED = ("pci_dss", "cis", "gdpr", "gpg13", "hipaa", "nist_800_53", "tsc")


@click.command(short_help="Show how the engine decodes and matches logs.")
@source_options
@click.option("--location", default="stdin", show_default=True, help="Location of the logs.")
@click.option("--trace", is_flag=True, help="Show every rule that is tried.")
def logtest(source: RulesetSource, location: str, trace: bool) -> None:
    """Type or pipe logs, one a line, and see each step: header, decoder with fields, rule.

    All logs of one run are one session, so rules that need several events can match. No alert is written.

    Example:  secmon logtest --root /opt/secmon --trace < /var/log/auth.log

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    compiled = source.usable()
    for message in compiled.messages:
        click.echo(click.style(str(message), fg="yellow"), err=True)
    if sys.stdin.isatty():
        click.echo("Type one log per line; end with Ctrl-D.", err=True)
    host = socket.gethostname().partition(".")[0].encode()
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="secmon-logtest-") as folder:
        engine = Engine(compiled, State.private(Path(folder)), host=host, session=True)
        for line in sys.stdin.buffer:
            log = line.rstrip(b"\r\n")
            if log:
                steps = Steps() if trace else None
                try:
                    verdict = engine.process(Message("1", location.encode(), log), clock.now().astimezone(), steps)
                except MatchLimit as error:
                    click.echo(f"This log cannot be analysed, which raises an alert of its own: {error}\n", err=True)
                else:
                    show(verdict, steps)


class Steps:
    """Collects the path through the tree of rules."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trying(self, rule: Rule) -> None:
        self.lines.append(f"Trying rule: {rule.id} - {_text(rule.description)}")

    def matched(self, rule: Rule) -> None:
        self.lines.append(f"*Rule {rule.id} matched")

    def descending(self, rule: Rule) -> None:
        self.lines.append("*Trying child rules")


def show(verdict: Verdict, steps: Steps | None) -> None:
    """Print the three stages."""
    event = verdict.event
    _stage("1", "predecoding")
    _line("full log", event.full_log)
    _line("timestamp", event.timestamp)
    _line("hostname", event.hostname)
    _line("program name", event.program_name)
    _stage("2", "decoding")
    _decoding(event)
    _stage("3", "rules")
    for line in steps.lines if steps else ():
        click.echo(f"  {line}")
    if verdict.rule is None:
        click.echo("  No rule matched.\n")
    else:
        _rule(verdict, verdict.rule)
    for one in verdict.beside:
        if one.rule is not None:
            _stage("3", "side tree")
            _rule(one, one.rule)


def _decoding(event: Event) -> None:
    if event.decoder is None:
        click.echo("  No decoder matched.")
        return
    _line("name", event.decoder.name)
    _line("parent", event.parent)
    for name, value in (*event.static.items(), *event.dynamic):
        _line(name, value)


def _rule(verdict: Verdict, rule: Rule) -> None:
    _line("id", str(rule.id))
    _line("level", str(rule.level))
    _line("description", describe(rule, verdict.event))
    names = [name for name in _text(rule.groups).split(",") if name]
    _line("groups", ", ".join(name for name in names if not name.startswith(tuple(f"{one}_" for one in _ROUTED))))
    for one in _ROUTED:
        _line(one, ", ".join(name.removeprefix(f"{one}_") for name in names if name.startswith(f"{one}_")))
    _line("mitre", ", ".join(one.technique for one in rule.mitre))
    _line("file", f"{rule.file}:{rule.line}")
    _line("fired", str(verdict.fired))
    if verdict.alert:
        click.echo(click.style("  An alert would be written.\n", fg="red", bold=True))
    else:
        click.echo("  No alert.\n")


def _stage(number: str, name: str) -> None:
    click.echo(click.style(f"Stage {number}: {name}", fg="cyan", bold=True))


def _line(name: str, value: bytes | str | None) -> None:
    if value:
        text = _text(value) if isinstance(value, bytes) else value
        click.echo(f"  {click.style(name, fg='green')}: {text}")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
