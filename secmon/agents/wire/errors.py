"""The error of the codec."""

from typing import Literal

Reason = Literal["auth", "corrupt", "format", "empty"]


class MessageError(Exception):
    """A message that is refused (agent-link.md 5.5).

    ``reason`` is ``auth`` (the key is likely another one), ``corrupt`` (damaged in or below the compression),
    ``format`` (frame or id prefix) or ``empty``.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
