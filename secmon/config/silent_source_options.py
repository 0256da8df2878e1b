"""The options of the section ``silent_sources`` and their checks."""

from collections.abc import Callable, Mapping

from secmon.common.errors import MISSING
from secmon.config.problems import Report
from secmon.config.values import BOOLEAN, NOT_EMPTY, Check, duration
from secmon.config.xml import Element

_MONTH = 30 * 86_400

SILENT_SOURCE_OPTIONS: Mapping[str, Mapping[str, Check | Mapping[str, Check]]] = {
    "silent_sources": {
        "enabled": BOOLEAN,
        "learning_time": duration(3600, _MONTH),
        "shortest_silence": duration(60, _MONTH),
        "longest_silence": duration(60, _MONTH),
        "source": {"group": NOT_EMPTY, "location": NOT_EMPTY, "interval": duration(60, _MONTH), "watched": BOOLEAN},
    }
}


def _check(sections: list[Element], report: Report) -> None:
    for source in (one for section in sections for one in section.children if one.name == "source"):
        given = {option.name: (option.text or "").strip() for option in source.children}
        if not given.get("group"):
            report.error("silent_sources", "source.group", MISSING, "the name of a group of agents", source)
        if given.get("watched") != "no" and not given.get("interval"):
            report.error("silent_sources", "source.interval", MISSING, "a time, or <watched>no</watched>", source)


SILENT_SOURCE_EXTRAS: Mapping[str, Callable[[list[Element], Report], None]] = {"silent_sources": _check}
