"""Imports agents, their groups and the groups' files from the folder of a 4.x manager: all of it or nothing."""

import shutil
from contextlib import ExitStack

from secmon.agents.groups.folders import AGENT_CONF, AGENT_CONF_TEXT, FILE_MODE
from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.files.categories import FOLDER_MODE
from secmon.common.paths import Paths
from secmon.importers.agents.plan import Plan, decide
from secmon.importers.agents.source import Source, read_group_file, read_source
from secmon.importers.report import Report, ReportLine
from secmon.importers.undo import write_or_restore


def import_agents(store: AgentStore, source: Source, paths: Paths, clock: Clock, *, dry_run: bool = False) -> Report:
    """Merge ``source`` into this installation, which must not run: nothing is changed when a line is refused.

    Files come first; if a later step or the commit fails, they are removed. Raises OSError and SecmonError.
    """
    with ExitStack() as undo:
        with store.write() as connection:
            here = {one.id: one for one in entries(connection)}
            gone = {one.id: one.name for one in tombstones(connection)}
            plan = decide(source, here, gone, paths)
            if plan.refused or plan.empty or dry_run:
                return Report(tuple(plan.lines), written=False)
            _copy(plan, paths, undo)
            for fault in registry.import_agents(connection, plan.news, now=int(clock.now().timestamp())):
                if fault is not None:
                    raise fault
            registry.assign(connection, plan.assigned)
            registry.add_tombstones(connection, plan.stones)
        undo.pop_all()  # committed: the files are kept
    return Report(tuple(plan.lines), written=True)


def _copy(plan: Plan, paths: Paths, undo: ExitStack) -> None:
    for group in dict.fromkeys([*plan.made, *(name.partition("/")[0] for name in plan.files)]):
        folder = paths.shared / group
        if not folder.is_dir():
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.mkdir()
            folder.chmod(FOLDER_MODE)
    for group in plan.made:
        write_or_restore(paths.shared / group / AGENT_CONF, AGENT_CONF_TEXT.encode(), FILE_MODE, undo)
    for name, source in plan.files.items():
        write_or_restore(paths.shared / name, read_group_file(source), FILE_MODE, undo)
    if plan.counter:
        write_or_restore(paths.counters / "sender_counter", plan.counter.encode(), FILE_MODE, undo)


__all__ = ["Report", "ReportLine", "Source", "import_agents", "read_source"]
