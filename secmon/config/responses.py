"""The sections ``command`` and ``active-response`` of the main configuration (manager.md 4.3)."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from secmon.config.main import MainConfig
from secmon.config.output_options import LOCATIONS

log = logging.getLogger("secmon.responses")

MOST_OFFENCES = 5
"""Times in ``repeated_offenders``."""


class Command(Struct, frozen=True, kw_only=True):
    """A program that answers alerts; ``timed``: what it does is undone after a time."""

    name: str
    executable: str
    arguments: tuple[str, ...] = ()
    timed: bool = False


class ActiveResponse(Struct, frozen=True, kw_only=True):
    """One section: a command, where it runs, and the alerts that it answers.

    An alert is answered when any of ``level``, ``rules`` and ``group`` fits it; ``timeout`` in seconds, 0: not undone.
    """

    command: Command
    location: str
    agent: int = 0
    """For the location ``defined-agent``."""
    level: int = 0
    rules: tuple[int, ...] = ()
    group: str = ""
    timeout: int = 0

    @property
    def name(self) -> str:
        """The command's name in the table of agents (agent-link.md 7.7)."""
        return f"{self.command.name}{self.timeout}"


def read_responses(config: MainConfig) -> list[ActiveResponse]:
    """The responses that are not disabled, in their order.

    One that names an unknown command or location, or has control characters, is left out with a warning.
    """
    commands = dict(_commands(config))
    return [one for section in _sections(config, "active-response") if (one := _response(section, commands))]


def repeated_offenders(config: MainConfig) -> tuple[int, ...]:
    """Seconds for which responses at this server last the second time, the third time, ...; later ones as the last."""
    texts = [_text(one, "repeated_offenders") for one in _sections(config, "active-response")]
    minutes = [one.strip() for text in texts for one in text.split(",")]
    return tuple(int(one) * 60 for one in minutes if one.isascii() and one.isdecimal())[:MOST_OFFENCES]


def allow_list(config: MainConfig) -> tuple[str, ...]:
    """Addresses, networks and patterns of host names that no response is for (``white_list``)."""
    found = [one.get("white_list") for one in _sections(config, "global")]
    texts = [text for each in found for text in (each if isinstance(each, list) else [each])]
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


def _response(section: Mapping[str, Any], commands: Mapping[str, Command]) -> ActiveResponse | None:
    name = _text(section, "command")
    if not name or _text(section, "disabled") == "yes":
        return None
    command, location = commands.get(name), LOCATIONS.get(_text(section, "location").lower() or "local")
    if command is None or location is None:
        unknown = f"the command {name!r}" if command is None else f"the location {_text(section, 'location')!r}"
        log.warning("An active response is left out: %s is not defined", unknown)
        return None
    if any(ord(character) < 32 for character in name + command.executable):
        log.warning("The active response %r is left out: it contains control characters", name)
        return None
    return ActiveResponse(
        command=command,
        location=location,
        agent=_number(section, "agent_id"),
        level=_number(section, "level"),
        rules=tuple(int(one) for one in _text(section, "rules_id").replace(",", " ").split() if one.isdecimal()),
        group=_text(section, "rules_group"),
        timeout=_number(section, "timeout") if command.timed else 0,
    )


def _commands(config: MainConfig) -> Iterator[tuple[str, Command]]:
    """Of repeated names the last counts. Module sections of this name have no executable."""
    for section in _sections(config, "command"):
        name, executable = _text(section, "name"), _text(section, "executable")
        if name and executable:
            yield (
                name,
                Command(
                    name=name,
                    executable=executable,
                    arguments=tuple(_text(section, "extra_args").split()),
                    timed=_text(section, "timeout_allowed") == "yes",
                ),
            )


def _sections(config: MainConfig, name: str) -> Iterator[Mapping[str, Any]]:
    found = config.sections.get(name, [])
    return (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict))


def _text(section: Mapping[str, Any], option: str) -> str:
    value = section.get(option)
    return value.strip() if isinstance(value, str) else ""


def _number(section: Mapping[str, Any], option: str) -> int:
    text = _text(section, option)
    return int(text) if text.isascii() and text.isdecimal() else 0
