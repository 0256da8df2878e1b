"""Active configuration of work that has daemons of its own in other products, and that secmon-modulesd does here.

Sections are named ``<daemon>/<section>`` (``operations.nodes.components``); their shapes are those of manager.md 7.4.
"""

from collections.abc import Mapping
from typing import Any

from secmon.cluster.node import Node
from secmon.config.main import MainConfig

_MONITOR = ("day_wait", "compress", "sign", "monitor_agents", "keep_log_days", "size_rotate", "daily_rotations",
            "delete_old_agents")  # fmt: skip
_TIMES = ("agents_disconnection_time", 600), ("agents_disconnection_alert_time", 0)
_WORDS = {True: "yes", False: "no"}


def substitute_sections(node: Node) -> Mapping[str, Any]:
    """Sections of execd and monitord: commands, log formats, silent agents, rotation."""
    main, options = node.main_config, node.options
    formats = {one.strip() for one in main.text("logging", "log_format", default="plain").split(",")}
    internal = {name: options.get(f"monitord.{name}") for name in _MONITOR}
    return {
        "execd/active-response": _active_response(main),
        "execd/logging": {name: _WORDS[name in formats] for name in ("plain", "json")},
        "execd/internal": {"execd": {}},
        "execd/cluster": main.cluster.as_dict(),
        "monitord/global": {name: main.seconds("global", name, default=default) for name, default in _TIMES},
        "monitord/internal": internal | {"size_rotate": internal["size_rotate"] << 20},
    }


def _active_response(main: MainConfig) -> dict[str, Any]:
    """Of the sections without a command, which configure the commands of this host."""
    found = main.sections.get("active-response", [])
    sections = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    own = [one for one in sections if "command" not in one]
    minutes = ",".join(str(one.get("repeated_offenders") or "") for one in sections).split(",")
    return {
        "disabled": _WORDS[any(one.get("disabled") == "yes" for one in own)],
        "repeated_offenders": [int(one) for one in map(str.strip, minutes) if one.isascii() and one.isdecimal()],
    }
