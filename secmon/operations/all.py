"""Every operation of this version: importing the areas fills the catalogue."""

from secmon.cluster.catalogue import CATALOGUE, Catalogue
from secmon.operations import rule_hits
from secmon.operations.agents import commands as agents_commands
from secmon.operations.agents import group_assignments as agents_assignments
from secmon.operations.agents import overview, upgrades
from secmon.operations.agents import read as agents_read
from secmon.operations.agents import responses as agents_responses
from secmon.operations.agents import runtime as agents_runtime
from secmon.operations.agents import sources as agents_sources
from secmon.operations.agents import write as agents_write
from secmon.operations.alerts import acknowledgements as alerts_acknowledgements
from secmon.operations.alerts import counts as alerts_counts
from secmon.operations.alerts import read as alerts_read
from secmon.operations.alerts import silence_preview as alerts_silence_preview
from secmon.operations.alerts import silences as alerts_silences
from secmon.operations.alerts import stream as alerts_stream
from secmon.operations.ciscat import read as ciscat_read
from secmon.operations.groups import files as groups_files
from secmon.operations.groups import groups
from secmon.operations.internal import INTERNAL
from secmon.operations.metrics import read as metrics_read
from secmon.operations.mitre import read as mitre_read
from secmon.operations.nodes import clocks as nodes_clocks
from secmon.operations.nodes import cluster, components, logs, manager, root, ruleset_reload, upload, versions, warnings
from secmon.operations.nodes import slow_requests as nodes_slow_requests
from secmon.operations.nodes import statistics as stats
from secmon.operations.rootcheck import clear as rootcheck_clear
from secmon.operations.rootcheck import read as rootcheck_read
from secmon.operations.rootcheck import scan as rootcheck_scan
from secmon.operations.ruleset import decoders, events, lists, logtest, rules
from secmon.operations.sca import checks as sca_checks
from secmon.operations.sca import policies as sca_policies
from secmon.operations.security import actions as security_actions
from secmon.operations.security import configuration as security_configuration
from secmon.operations.security import links as security_links
from secmon.operations.security import login as security_login
from secmon.operations.security import own_account as security_own_account
from secmon.operations.security import permissions as security_permissions
from secmon.operations.security import policies as security_policies
from secmon.operations.security import roles as security_roles
from secmon.operations.security import rules as security_rules
from secmon.operations.security import users as security_users
from secmon.operations.syscheck import clear as syscheck_clear
from secmon.operations.syscheck import read as syscheck_read
from secmon.operations.syscheck import scan as syscheck_scan
from secmon.operations.syscollector import read as syscollector_read
from secmon.operations.tasks import node_tasks as tasks_node_tasks
from secmon.operations.tasks import status as tasks_status
from secmon.operations.vulnerability import read as vulnerability_read
from secmon.operations.vulnerability import scan as vulnerability_scan
from secmon.operations.vulnerability import summary as vulnerability_summary

AREAS = (
    root,
    security_login,
    security_configuration,
    security_users,
    security_roles,
    security_policies,
    security_rules,
    security_links,
    security_own_account,
    security_permissions,
    security_actions,
    agents_read,
    overview,
    agents_write,
    agents_assignments,
    agents_commands,
    agents_responses,
    rule_hits,
    agents_sources,
    agents_runtime,
    upgrades,
    tasks_status,
    tasks_node_tasks,
    groups,
    groups_files,
    cluster,
    manager,
    logs,
    upload,
    ruleset_reload,
    versions,
    warnings,
    rules,
    decoders,
    lists,
    logtest,
    events,
    stats,
    nodes_clocks,
    nodes_slow_requests,
    components,
    metrics_read,
    syscollector_read,
    syscheck_read,
    syscheck_clear,
    syscheck_scan,
    rootcheck_read,
    rootcheck_clear,
    rootcheck_scan,
    sca_policies,
    sca_checks,
    ciscat_read,
    mitre_read,
    vulnerability_read,
    vulnerability_scan,
    vulnerability_summary,
    alerts_counts,
    alerts_stream,
    alerts_silence_preview,
    alerts_silences,
    alerts_acknowledgements,
    alerts_read,
)

EXECUTABLE = Catalogue()
"""What the daemons of the nodes execute for each other: the operations of clients, and those between daemons."""

for _each in (*CATALOGUE, *INTERNAL):
    EXECUTABLE.add(_each)

__all__ = ["AREAS", "CATALOGUE", "EXECUTABLE"]
