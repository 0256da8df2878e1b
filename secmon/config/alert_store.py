"""How long alerts can be searched (section ``alerts`` of the main configuration)."""

from dataclasses import dataclass

from secmon.config.main import MainConfig
from secmon.config.values import size

DEFAULT_DAYS, DEFAULT_BYTES = 30, 20 << 30


@dataclass(frozen=True, kw_only=True)
class AlertStoreSettings:
    """``keep_days`` and ``max_bytes``: 0 is without limit."""

    enabled: bool
    keep_days: int
    max_bytes: int

    @classmethod
    def of(cls, main: MainConfig) -> "AlertStoreSettings":
        """The options ``store``, ``store_days`` and ``store_size``; without alerts as JSON there is no store."""
        largest = size(main.text("alerts", "store_size"))
        return cls(
            enabled=main.flag("alerts", "store", default=True) and main.flag("global", "jsonout_output", default=True),
            keep_days=main.integer("alerts", "store_days", default=DEFAULT_DAYS),
            max_bytes=DEFAULT_BYTES if largest is None else largest,
        )
