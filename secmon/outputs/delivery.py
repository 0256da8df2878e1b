"""The delivery of one output: send until the receiver has taken it, commit.

Its position is its own, so that a receiver that is slow, away or hostile delays nothing but itself. A kill between the
receiver's answer and the commit repeats the alerts of one call.
"""

from collections.abc import Sequence

from secmon.alerts.alert_reader import Position
from secmon.outputs.alert import Alert
from secmon.outputs.follower import FIRST_PAUSE, LONGEST_PAUSE, AlertFollower, Batch, Source
from secmon.outputs.output import Output, Undelivered


class Delivery(AlertFollower):
    """Delivers the alerts of this node to one output, from the committed position on."""

    def __init__(self, output: Output, key: str, source: Source) -> None:
        super().__init__(output, key, source)
        self._output = output

    async def handle(self, batch: Batch | None) -> bool:
        if batch is None:
            return False
        for start in range(0, len(batch.alerts), self._output.most):
            if not await self._deliver(batch.position, batch.alerts[start : start + self._output.most]):
                return True
        if self.commit_due:
            await self.commit(batch.position)
        return True

    async def _deliver(self, position: Position, alerts: Sequence[Alert]) -> bool:
        """Send until all are taken or refused, and commit that; False at a stop."""
        pause = FIRST_PAUSE
        while alerts:
            try:
                refused = await self._output.deliver(alerts)
                done = len(alerts)
                self.succeeded()
            except Undelivered as error:
                refused, done = error.refused, error.done
                self.failed(str(error))
            self.count("delivered", done - refused)
            self.count("refused", refused)
            if done:
                await self.commit(position.at(alerts[done - 1].end))
                alerts, pause = alerts[done:], FIRST_PAUSE
            if alerts:
                await self.pause(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
            if self.stopping:
                return False
        return True
