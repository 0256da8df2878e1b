"""Every operation of this version: importing the areas fills the catalogue."""

from secmon.common.operations import (
    agents,
    agents_commands,
    agents_components,
    agents_groups,
    agents_write,
    cluster,
    components,
    decoders,
    events,
    groups,
    groups_files,
    lists,
    logs,
    logtest,
    manager,
    overview,
    root,
    rules,
    run_as,
    security,
    security_catalogue,
    security_links,
    security_policies,
    security_roles,
    security_rules,
    security_self,
    security_users,
    stats,
    tasks,
    tasks_internal,
    upgrades,
    upload,
    versions,
)
from secmon.common.operations.catalogue import CATALOGUE, Catalogue
from secmon.common.operations.internal import INTERNAL

AREAS = (
    root,
    security,
    security_users,
    security_roles,
    security_policies,
    security_rules,
    security_links,
    security_self,
    security_catalogue,
    run_as,
    agents,
    overview,
    agents_write,
    agents_groups,
    agents_commands,
    agents_components,
    upgrades,
    tasks,
    tasks_internal,
    groups,
    groups_files,
    cluster,
    manager,
    logs,
    upload,
    versions,
    rules,
    decoders,
    lists,
    logtest,
    events,
    stats,
    components,
)

EXECUTABLE = Catalogue()
"""What the daemons of the nodes execute for each other: the operations of clients, and those between daemons."""

for _each in (*CATALOGUE, *INTERNAL):
    EXECUTABLE.add(_each)

__all__ = ["AREAS", "CATALOGUE", "EXECUTABLE"]
