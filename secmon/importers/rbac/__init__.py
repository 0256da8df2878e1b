"""Imports users, roles, policies, rules and their links from a public 4.x manager (rbac.md 17).

Not imported: revocations, signing keys, and the security configuration, which is in a separate file.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.importers.rbac.plan import Plan, Target, decide
from secmon.importers.rbac.source import Source, read_source
from secmon.importers.report import Report, ReportLine
from secmon.security.revocation import revoke_role, revoke_run_as, revoke_user
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction

Progress = Callable[[int, int], None]
"""Called with the number of written rows and of all rows."""

_ENTITIES = (schema.users, schema.roles, schema.policies, schema.rules)
_TABLES = (*_ENTITIES, schema.user_roles, schema.role_policies, schema.role_rules)


def import_rbac(
    store: SecurityStore,
    source: Source,
    clock: Clock,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    transaction: AbstractContextManager[WriteTransaction] | None = None,
) -> Report:
    """Merge ``source`` into the master's store, in one transaction: all of it or nothing.

    The default contents must be there (2012). Nothing is written when ``dry_run``, or when a row of the source is
    unusable (``Report.refused``). Tokens end whose user, role or rule changes. Holds the write lock of the store
    meanwhile: a second for some thousand rows. ``transaction`` is the one to write in, such as an audited one; a plain
    one of the store without it.
    """
    with transaction or store.write() as tx:
        plan = decide(source, _target(tx))
        writes = bool(plan.rows) and not dry_run
        if writes:
            _apply(tx, plan, clock, progress)
    return Report(plan.lines, written=writes)


def _target(tx: WriteTransaction) -> Target:
    rows = {str(table.name): tx.select(table) for table in _TABLES}
    held = {row["id"] for row in rows["users"]}
    if not {1, 2} <= held or not rows["policies"]:
        raise SecmonError(2012, "the security store has no default contents yet")
    next_ids = {str(row["name"]): int(row["next_id"]) for row in tx.select(schema.sequences)}
    return Target(rows, {str(table.name): next_ids.get(str(table.name), 100) for table in _ENTITIES})


def _apply(tx: WriteTransaction, plan: Plan, clock: Clock, progress: Progress | None) -> None:
    for done, (table, row) in enumerate(plan.rows, 1):
        tx.put(table, row)
        if progress is not None:
            progress(done, len(plan.rows))
    for user in plan.users:
        revoke_user(tx, user, clock)
    for role in plan.roles:
        revoke_role(tx, role, clock)
    if plan.run_as:
        revoke_run_as(tx, clock)


__all__ = ["Progress", "Report", "ReportLine", "Source", "import_rbac", "read_source"]
