"""What an output is to its delivery."""

from collections.abc import Sequence
from typing import Protocol

from secmon.outputs.alert import Alert


class Undelivered(Exception):
    """The receiver cannot take alerts now; the text says why, without secrets.

    ``done``: how many of the alerts are over, from the first on, ``refused`` of them for good. The others are tried
    again.
    """

    def __init__(self, reason: str, done: int = 0, refused: int = 0) -> None:
        super().__init__(reason)
        self.done = done
        self.refused = refused


class Receiver(Protocol):
    """One receiver of alerts. It is used by one task."""

    @property
    def name(self) -> str:
        """For logs and counters: kind and receiver, without secrets."""

    def wants(self, alert: Alert) -> bool:
        """Whether ``alert`` is sent here."""

    @property
    def silences(self) -> bool:
        """Whether alerts that a silence covers are held back."""

    async def close(self) -> None:
        """Close connections."""


class Output(Receiver, Protocol):
    """A receiver that takes alerts as they come."""

    @property
    def most(self) -> int:
        """Alerts of one call at most."""

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        """Send ``alerts`` in order; how many the receiver has refused for good. Bounded in time. Raises Undelivered.

        What was sent before an error without being counted as done is sent again: receivers may see it twice.
        """
