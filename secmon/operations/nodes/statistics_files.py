"""Statistics that the daemons of a node leave in files (manager.md 9)."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
"""In the order of the folders."""
_HOURS = range(24)
_LEARNED = 24
"""Name of the file that says how often the averages were learned."""
_RULE = re.compile(r"(\d{1,2})-(\d+)-(\d+)-(\d+)", re.ASCII)
_HOUR = re.compile(r"(\d{1,2})--(\d+)--(\d+)--(\d+)--(\d+)", re.ASCII)
_STATE = re.compile(r"(\w+)='([^']*)'", re.ASCII)
_OF_DAY = ("Hour totals", "Total events for day")


def totals(paths: Paths, day: date) -> list[dict[str, Any]]:
    """The hours of a day in which something happened. Raises 1308 without a file, 1309 for a damaged one. Blocks."""
    name = f"{day.year:04d}/{MONTHS[day.month - 1]}/ossec-totals-{day.day:02d}.log"
    hours: list[dict[str, Any]] = []
    alerts: list[dict[str, int]] = []
    for number, line in enumerate(_lines(paths.stats / "totals" / name, name), 1):
        if rule := _RULE.fullmatch(line):
            alerts.append({"sigid": int(rule[2]), "level": int(rule[3]), "times": int(rule[4])})
        elif hour := _HOUR.fullmatch(line):
            names = ("hour", "totalAlerts", "events", "syscheck", "firewall")
            counts = dict(zip(names, map(int, hour.groups()), strict=True))
            hours.append({"hour": counts.pop("hour"), "alerts": alerts, **counts})
            alerts = []
        elif line and not line.startswith(_OF_DAY):
            raise SecmonError(1309, f"{name}, line {number}")
    return hours


def hourly(paths: Paths) -> dict[str, Any]:
    """Events that are usual at each hour, and how many days that was learned from. Blocks."""
    averages, learned = _averages(paths.stats / "hourly-average")
    return {"averages": averages, "interactions": learned}


def weekly(paths: Paths) -> list[dict[str, Any]]:
    """The same of each day of the week. Blocks."""
    days = []
    for number, name in enumerate(WEEKDAYS):
        hours, learned = _averages(paths.stats / "weekly-average" / str(number))
        days.append({name: {"hours": hours, "interactions": learned}})
    return days


def state(paths: Paths, daemon: str) -> dict[str, float]:
    """What a daemon wrote last into its state file. Raises 1308 without one, 1309 for a damaged one. Blocks."""
    name = f"{daemon}.state"
    values: dict[str, float] = {}
    for number, line in enumerate(_lines(paths.run / name, name), 1):
        if not line or line.startswith("#"):
            continue
        found = _STATE.fullmatch(line)
        try:
            if found is None:
                raise ValueError(line)
            values[found[1]] = float(found[2])
        except ValueError:
            raise SecmonError(1309, f"{name}, line {number}") from None
    return values


def link_state(counted: Mapping[str, Any]) -> dict[str, float]:
    """The counters of the agent link in their older, flat form."""
    metrics = counted["metrics"]
    received, queue = metrics["messages"]["received_breakdown"], metrics["queues"]["received"]
    flat = {
        "queue_size": queue["usage"],
        "total_queue_size": queue["size"],
        "tcp_sessions": metrics["tcp_sessions"],
        "evt_count": received["event"],
        "ctrl_msg_count": received["control"],
        "discarded_count": received["discarded"],
        "sent_bytes": metrics["bytes"]["sent"],
        "recv_bytes": metrics["bytes"]["received"],
        "dequeued_after_close": received["dequeued_after"],
    }
    return {name: float(value) for name, value in flat.items()}


def _lines(file: Path, shown: str) -> list[str]:
    try:
        return [line.rstrip() for line in file.read_text("utf-8", "replace").split("\n")]
    except (FileNotFoundError, NotADirectoryError):
        raise SecmonError(1308, shown) from None
    except OSError as error:
        raise SecmonError(1005, f"{shown}: {error.strerror}") from error


def _averages(folder: Path) -> tuple[list[int], int]:
    return [_number(folder / str(hour)) for hour in _HOURS], _number(folder / str(_LEARNED))


def _number(file: Path) -> int:
    """0 without a file, and for one that does not hold a number."""
    try:
        text = file.read_text("ascii", "replace").strip()
    except OSError:
        return 0
    return int(text) if text.isdecimal() and len(text) <= 18 else 0
