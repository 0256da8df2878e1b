"""When a source of events counts as silent (section ``silent_sources`` of the main configuration, on the master)."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from secmon.config.main import MainConfig
from secmon.config.values import seconds

LEAST_HOURS = 24
"""Hours in which a source must have sent events before its pauses say when it is silent."""
TIMES_USUAL = 2
"""How many times as long as usual a pause must be."""
_HOUR, _DAY = 3600, 86_400


class ExpectedSource(Struct, frozen=True, kw_only=True):
    """One ``source``: what is expected of the agents of a group, or of one location of theirs (``*``: any text).

    ``interval``: an event within so many seconds, whatever was learned; None: nothing is expected.
    """

    group: str
    location: str = ""
    interval: int | None = None

    def concerns(self, location: str) -> bool:
        """Without a location: the agents as a whole, and where nothing is expected all of their locations too."""
        if not self.location:
            return not location or self.interval is None
        return bool(location) and fnmatchcase(location, self.location)


class SilentSourceSettings(Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    enabled: bool = True
    learning: int = 3 * _DAY
    """A source is not judged by its pauses before it has been known for so long."""
    shortest: int = 900
    """No shorter silence is reported, unless an interval is configured."""
    longest: int = _DAY
    """A source that would have to be silent for longer than this is irregular, and never reported."""
    expected: tuple[ExpectedSource, ...] = ()

    @classmethod
    def of(cls, main: MainConfig) -> "SilentSourceSettings":
        """As configured; of the sections ``source`` those without a group are left out."""
        name = "silent_sources"
        return cls(
            enabled=main.flag(name, "enabled", default=True),
            learning=main.seconds(name, "learning_time", default=cls().learning),
            shortest=main.seconds(name, "shortest_silence", default=cls().shortest),
            longest=main.seconds(name, "longest_silence", default=cls().longest),
            expected=tuple(_expected(main.sections.get(name))),
        )

    def limit(self, groups: tuple[str, ...], location: str, known: int, hours: int, pause: int) -> int | None:
        """Seconds without an event after which a source of an agent in ``groups`` is silent; None: it is not watched.

        The first configured expectation counts. ``known``: for how many seconds the source has been known; ``hours``
        in which it sent events; ``pause``: seconds of its longest usual pause.
        """
        for one in self.expected:
            if one.group in groups and one.concerns(location):
                return one.interval
        if known < self.learning or hours < LEAST_HOURS:
            return None
        silence = max(self.shortest, TIMES_USUAL * pause)
        return silence if silence <= self.longest else None


def _expected(section: object) -> Iterator[ExpectedSource]:
    for each in _sources(section):
        text = {name: str(values[-1] or "").strip() for name, values in each.items() if values}
        if text.get("group"):
            interval = seconds(text.get("interval", "")) if text.get("watched") != "no" else None
            yield ExpectedSource(group=text["group"], location=text.get("location", ""), interval=interval)


def _sources(section: object) -> Iterator[Mapping[str, list[str | None]]]:
    """The texts of each ``source`` by option; of an empty one there is no mapping."""
    found = section.get("source", []) if isinstance(section, dict) else []
    yield from (one for one in found if isinstance(one, dict))
