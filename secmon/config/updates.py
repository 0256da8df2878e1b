"""Whether, and where, the master asks for newer versions: ``update_check`` and ``update_check_url`` in ``global``."""

from msgspec import Struct

from secmon.config.main import MainConfig
from secmon.config.validation import ADDRESS


class UpdateSettings(Struct, frozen=True, kw_only=True):
    """``url``: address of the list of releases; empty where none is configured, or none that is right."""

    enabled: bool = False
    url: str = ""


def read_updates(config: MainConfig) -> UpdateSettings:
    """The values in force. Nothing is asked unless it is configured: the product has no update service of its own."""
    url = config.text("global", "update_check_url")
    return UpdateSettings(
        enabled=config.flag("global", "update_check", default=False), url=url if ADDRESS.test(url) else ""
    )
