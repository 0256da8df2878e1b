"""Runs the migrations of tables by alembic, on either engine (docs/upgrade-secmon.md).

A folder has a module for each version of the tables. Which version there is, their store keeps by itself.
"""

from pathlib import Path

from sqlalchemy import Connection


def revision(version: int) -> str:
    """The revision of alembic for a version: four digits."""
    return f"{version:04}"


def run_migrations(connection: Connection, folder: Path, found: int, wanted: int) -> None:
    """Run those of ``folder`` that lead from version ``found`` to ``wanted``, in the transaction of the caller.

    Raises what a migration raises. Alembic is loaded here alone: most starts, and all openings, do without.
    """
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(folder), version_locations=[str(folder)])
    with Operations.context(MigrationContext.configure(connection)):
        for script in reversed([*scripts.iterate_revisions(revision(wanted), revision(found))]):
            script.module.upgrade()
