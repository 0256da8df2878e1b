"""The highest version of agents (newer-versions.md 1): the option ``highest_version`` in ``remote/agents``."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secmon.config.main import MainConfig

HIGHEST_AGENT = "4.14"
"""Unless configured otherwise: the agents' protocol is the same up to here."""
_FORM = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)


def is_agent_version(text: str) -> bool:
    """Whether it is a major and a minor number, such as ``4.14``."""
    return _FORM.fullmatch(text) is not None


def above_default(text: str) -> bool:
    """Whether it is an agent version above the default."""
    found, default = _FORM.fullmatch(text), _FORM.fullmatch(HIGHEST_AGENT)
    return found is not None and default is not None and _numbers(found) > _numbers(default)


def highest_agent(config: "MainConfig") -> str:
    """Agents of at most this major and minor enrol and connect, unless a section allows higher versions, and are
    upgraded to no higher one, unless the request forces it. A value that is not valid has the default."""
    text = config.text("remote", "agents", "highest_version")
    return text if is_agent_version(text) else HIGHEST_AGENT


def _numbers(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])
