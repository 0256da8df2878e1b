"""Alerts that a user has looked at, with a comment: rows of the security store, so that every node has them.

An alert is named by its id and its agent: alerts of different nodes may have the same id.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from secmon.alerts.document import milliseconds
from secmon.common.clock import Clock, iso_z
from secmon.security.store.replication import Row
from secmon.security.store.schema import acknowledgements
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction

MOST = 50_000
"""Acknowledgements; beyond, those of the oldest alerts go."""
LONGEST = timedelta(days=365)
"""How long one is kept at most, from the time of its alert."""

Key = tuple[str, str]
"""Id and agent of an alert."""


class Acknowledgement(Struct, frozen=True):
    """As the API shows it. ``time``: when it was made."""

    id: str
    agent: str
    user: str
    time: str
    comment: str


def shown(row: Row) -> Acknowledgement:
    """A row of the store."""
    time = iso_z(datetime.fromtimestamp(row["time"], UTC))
    return Acknowledgement(row["alert_id"], row["agent"], row["user"], time, row["comment"])


def key_of(alert: Mapping[str, Any]) -> Key:
    """What names an alert; empty texts for what it does not have."""
    agent = alert.get("agent")
    return str(alert.get("id", "")), str(agent.get("id", "")) if isinstance(agent, Mapping) else ""


def acknowledge(
    tx: WriteTransaction, alerts: Iterable[Mapping[str, Any]], clock: Clock, *, user: str, comment: str
) -> list[Acknowledgement]:
    """Acknowledge alerts; an earlier acknowledgement of them is replaced."""
    now, made = int(clock.now().timestamp()), []
    for alert in alerts:
        number, agent = key_of(alert)
        row: Row = {"alert_id": number, "agent": agent, "raised": milliseconds(alert["timestamp"])}
        row |= {"user": user, "time": now, "comment": comment}
        tx.put(acknowledgements, row)
        made.append(shown(row))
    forget_surplus(tx)
    return made


def withdraw(tx: WriteTransaction, keys: Iterable[Key]) -> None:
    """Delete acknowledgements."""
    for key in keys:
        tx.delete(acknowledgements, *key)


def forget_surplus(tx: WriteTransaction) -> int:
    """Delete those of the oldest alerts when there are too many, some more than needed; how many."""
    if tx.count(acknowledgements) <= MOST:
        return 0
    rows = sorted(tx.select(acknowledgements), key=lambda row: int(row["raised"]))
    gone = rows[: len(rows) - MOST + MOST // 50]
    withdraw(tx, [(row["alert_id"], row["agent"]) for row in gone])
    return len(gone)


def forget_older(tx: WriteTransaction, age: timedelta, clock: Clock) -> int:
    """Delete those of alerts that are older, or older than the longest time; how many."""
    oldest = int((clock.now() - min(age, LONGEST)).timestamp() * 1000)
    gone = tx.select(acknowledgements, acknowledgements.c.raised < oldest)
    withdraw(tx, [(row["alert_id"], row["agent"]) for row in gone])
    return len(gone)


def add_acknowledgements(store: SecurityStore, alerts: Iterable[dict[str, Any]]) -> None:
    """Add the member ``acknowledged`` to the alerts that are. Blocks. Raises what the store does."""
    by_key = {key_of(alert): alert for alert in alerts}
    if not by_key:
        return
    with store.read() as tx:
        rows = tx.select(acknowledgements, acknowledgements.c.alert_id.in_({number for number, _ in by_key}))
    for row in rows:
        alert, found = by_key.get((row["alert_id"], row["agent"])), shown(row)
        if alert is not None:
            alert["acknowledged"] = {"user": found.user, "time": found.time, "comment": found.comment}


def acknowledged_ids(store: SecurityStore) -> dict[str, list[str]]:
    """Ids of the acknowledged alerts of each agent. Blocks. Raises what the store does."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    with store.read() as tx:
        for row in tx.select(acknowledgements):
            found[row["agent"]].append(row["alert_id"])
    return found
