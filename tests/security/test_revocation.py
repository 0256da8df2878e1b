"""Rows of revocations."""

from secmon.security.revocation import revoke_all, revoke_role, revoke_user
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from tests.manual_clock import ManualClock


def test_revoking_everyone_replaces_other_rows(store: SecurityStore, clock: ManualClock) -> None:
    with store.write() as tx:
        revoke_user(tx, 100, clock)
        revoke_role(tx, 100, clock)
    with store.write() as tx:
        revoke_all(tx)
        left = tx.select(schema.revocations)
    assert [(row["scope"], row["revision"]) for row in left] == [("all", store.revision())]


def test_revocations_are_dropped_when_all_tokens_have_expired(store: SecurityStore, clock: ManualClock) -> None:
    def scopes_after(seconds: float) -> list[str]:
        clock.advance(seconds)
        with store.write() as tx:
            revoke_role(tx, 7, clock)
            return [row["scope"] for row in tx.select(schema.revocations)]

    with store.write() as tx:
        revoke_user(tx, 100, clock)
    assert scopes_after(1200) == ["role", "user"]
    assert scopes_after(1) == ["role"]
