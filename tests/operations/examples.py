"""For every operation with requirements: parameters with which an administrator is not refused.

They name the resources that permissions are checked for. An administrator asks in the order of this table, so what is
made first is there for what follows. :data:`FAILING` has those that fail in the world of :func:`prepare`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table

from secmon.agents.sources.silent_list import SilentSource, write_silent
from secmon.inventory.schema import metadata, rootcheck_findings, vulnerabilities, vulnerability_scans
from tests.agents.rows import agent, put
from tests.alerts.filled_store import fill
from tests.operations.analyst import LOGIN_RULE, stocked
from tests.operations.fields import MemoryLink
from tests.operations.inventory.hosts import full_row, store
from tests.operations.world import CALLERS, PASSWORD, World
from tests.outputs.alert_files import alert

MADE = str(100 + len(CALLERS))
"""The user, and the role, that the examples make."""
POLICY = str(100 + sum(map(len, CALLERS.values())))
RULE = "100"

_CONF = b"<agent_config><client_buffer><disabled>no</disabled></client_buffer></agent_config>"
_DECODERS = b'<decoder name="own"><program_name>^own</program_name></decoder>'
_NODE = {"node_id": "beta"}
_NODES = {"nodes_list": ["beta"]}
_ACTIVE = {"component": "com", "configuration": "cluster"}
_AGENT = {"agent_id": "002"}
_AGENTS = {"agents_list": ["002"]}
_GROUP = {"group_id": "web"}
_POLICY_BODY = {"actions": ["agent:read"], "resources": ["agent:id:7"], "effect": "allow"}
_MAIN_CONFIG = b"<ossec_config><global><logall>no</logall></global></ossec_config>"

_SILENT = SilentSource(agent=2, name="web-2", location="", last_event=1, expected_seconds=900, since=902)
_STATISTICS = ("stats", "stats/hourly", "stats/weekly", "stats/analysisd", "stats/remoted")
_LINK = {"daemons_list": ["secmon-remoted"]}
_OF_A_NODE = ("logs", "logs/summary", "status", "info", "configuration", *_STATISTICS)
_OF_EACH = ("api/config", "configuration/validation", "warnings")
_HOST_DATA = ("hardware", "hotfixes", "netaddr", "netiface", "netproto", "os", "packages", "ports", "processes")

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    # The nodes.
    **{f"GET /cluster/{{node_id}}/{name}": _NODE for name in _OF_A_NODE},
    **{f"GET /manager/{name}": {} for name in (*_OF_A_NODE, *_OF_EACH)},
    **{f"GET /cluster/{name}": {} for name in ("local/info", "local/config", "status")},
    **{f"GET /cluster/{name}": _NODES for name in ("nodes", "healthcheck", "ruleset/synchronization", *_OF_EACH)},
    "GET /cluster/{node_id}/configuration/{component}/{configuration}": _NODE | _ACTIVE,
    "GET /manager/configuration/{component}/{configuration}": _ACTIVE,
    "GET /metrics": {},
    "PUT /cluster/restart": _NODES,
    "PUT /manager/restart": {},
    "PUT /cluster/analysisd/reload": _NODES,
    "PUT /manager/analysisd/reload": {},
    # What hosts report.
    **{
        f"GET /syscollector/{{agent_id}}/{name}": _AGENT
        for name in (*_HOST_DATA, "users", "groups", "services", "browser_extensions")
    },
    **{f"GET /experimental/syscollector/{name}": _AGENTS for name in _HOST_DATA},
    **{
        f"GET /{path}": _AGENT
        for path in (
            *("syscheck/{agent_id}", "syscheck/{agent_id}/last_scan", "rootcheck/{agent_id}"),
            *("rootcheck/{agent_id}/last_scan", "sca/{agent_id}", "ciscat/{agent_id}/results"),
            *("vulnerability/{agent_id}", "vulnerability/{agent_id}/last_scan"),
        )
    },
    **{f"GET /alerts{name}": _AGENTS for name in ("", "/top", "/histogram")},
    "GET /alerts/stream": _AGENTS | {"position": "beta=1"},
    "GET /alerts/{alert_id}": {"alert_id": "1700000000.1"},
    "GET /alerts/silences/preview": _AGENTS,
    "POST /alerts/silences": _AGENTS | {"body": {"until": "now+4h", "reason": "a test"}},
    "GET /alerts/silences": {},
    "PUT /alerts/silences/{silence_id}": {"silence_id": "100", "body": {"until": "now"}},
    "DELETE /alerts/silences/{silence_id}": {"silence_id": "100"},
    "PUT /alerts/acknowledgements": {"body": {"ids": ["1700000000.1"], "comment": "known"}},
    "GET /alerts/acknowledgements": {},
    "DELETE /alerts/acknowledgements": {"alert_ids": ["1700000000.1"]},
    "GET /vulnerability/{agent_id}/summary/{field}": _AGENT | {"field": "severity"},
    "PUT /vulnerability": {},
    "GET /sca/{agent_id}/checks/{policy_id}": _AGENT | {"policy_id": "text"},
    "GET /experimental/ciscat/results": _AGENTS,
    **{f"PUT /{area}": _AGENTS for area in ("syscheck", "rootcheck")},
    **{f"DELETE /{area}/{{agent_id}}": _AGENT for area in ("syscheck", "rootcheck")},
    **{f"DELETE /experimental/{area}": _AGENTS for area in ("syscheck", "rootcheck")},
    # Agents and their groups.
    "POST /groups": {"body": {"group_id": "made"}},
    "POST /agents": {"body": {"name": "first"}},
    "POST /agents/insert": {"body": {"name": "second", "ip": "any", "id": "700", "key": "k" * 64}},
    "POST /agents/insert/quick": {"agent_name": "third"},
    **{
        f"GET /agents{name}": {}
        for name in (
            "/no_group",
            "/outdated",
            "/stats/distinct",
            "/summary/os",
            "/summary/status",
            "/uninstall",
            "/silent-sources",
        )
    },
    "GET /agents": _AGENTS,
    "GET /agents/summary": _AGENTS,
    "GET /agents/{agent_id}/key": _AGENT,
    "GET /agents/{agent_id}/group/is_sync": _AGENT,
    "GET /agents/{agent_id}/config/{component}/{configuration}": _AGENT
    | {"component": "agent", "configuration": "client"},
    "GET /agents/{agent_id}/stats/{component}": _AGENT | {"component": "agent"},
    "GET /agents/{agent_id}/daemons/stats": _AGENT | _LINK,
    "GET /cluster/{node_id}/daemons/stats": _NODE | _LINK,
    "GET /manager/daemons/stats": _LINK,
    "GET /overview/agents": {},
    "GET /groups": {"groups_list": ["web"]},
    "GET /groups/{group_id}/agents": _GROUP,
    "GET /groups/{group_id}/configuration": _GROUP,
    "GET /groups/{group_id}/files": _GROUP,
    "GET /groups/{group_id}/files/{file_name}": _GROUP | {"file_name": "agent.conf"},
    "GET /groups/{group_id}/files/{file_name}/json": _GROUP | {"file_name": "agent.conf"},
    "GET /groups/{group_id}/files/{file_name}/xml": _GROUP | {"file_name": "agent.conf"},
    "PUT /groups/{group_id}/configuration": {**_GROUP, "body": _CONF},
    "PUT /agents/restart": _AGENTS,
    "PUT /agents/reconnect": _AGENTS,
    "PUT /agents/{agent_id}/restart": _AGENT,
    "PUT /agents/group/{group_id}/restart": _GROUP,
    "PUT /agents/node/{node_id}/restart": _NODE,
    "PUT /active-response": {**_AGENTS, "body": {"command": "restart-wazuh0"}},
    "PUT /agents/group": {"group_id": "made", **_AGENTS},
    "DELETE /agents/group": {"group_id": "made", **_AGENTS},
    "PUT /agents/{agent_id}/group/{group_id}": {**_AGENT, "group_id": "made"},
    "DELETE /agents/{agent_id}/group/{group_id}": {**_AGENT, "group_id": "made"},
    "DELETE /agents/{agent_id}/group": {**_AGENT, "groups_list": ["web"]},
    "PUT /agents/upgrade": {**_AGENTS, "force": True},
    "PUT /agents/upgrade_custom": {**_AGENTS, "file_path": "/var/packages/agent.wpk"},
    "GET /agents/upgrade_result": _AGENTS,
    "GET /tasks/status": {},
    "DELETE /agents": {**_AGENTS, "status": ["all"], "older_than": "0s"},
    "DELETE /groups": {"groups_list": ["made"]},
    # Rules, decoders, lists, events.
    **{f"GET /rules{name}": {} for name in ("", "/groups")},
    "GET /rules/requirement/{requirement}": {"requirement": "pci_dss"},
    **{f"GET /decoders{name}": {} for name in ("", "/parents")},
    **{f"GET /mitre/{name}": {} for name in ("groups", "metadata", "mitigations", "references")},
    **{f"GET /mitre/{name}": {} for name in ("software", "tactics", "techniques")},
    "GET /lists": {"filename": ["vip"]},
    "PUT /rules/files/{filename}": {"filename": "made.xml", "body": LOGIN_RULE},
    "PUT /decoders/files/{filename}": {"filename": "made.xml", "body": _DECODERS},
    "PUT /lists/files/{filename}": {"filename": "made", "body": b"a:b\n"},
    "GET /rules/files": {"filename": ["shop_rules.xml"]},
    "GET /decoders/files": {"filename": ["shop_decoders.xml"]},
    "GET /lists/files": {"filename": ["vip"]},
    **{f"GET /{kind}/files/{{filename}}": {"filename": "made.xml"} for kind in ("rules", "decoders")},
    "GET /lists/files/{filename}": {"filename": "made"},
    **{f"DELETE /{kind}/files/{{filename}}": {"filename": "made.xml"} for kind in ("rules", "decoders")},
    "DELETE /lists/files/{filename}": {"filename": "made"},
    **{f"POST /{name}": {"body": {"events": ["an event"]}} for name in ("event", "events")},
    "PUT /logtest": {"body": {"event": "an event", "log_format": "syslog", "location": "here"}},
    "DELETE /logtest/sessions/{token}": {"token": "0123abcd"},
    # Users, roles, policies, rules.
    "POST /security/users": {"body": {"username": "made", "password": PASSWORD}},
    "POST /security/roles": {"body": {"name": "made"}},
    "POST /security/policies": {"body": {"name": "made", "policy": _POLICY_BODY}},
    "POST /security/rules": {"body": {"name": "made", "rule": {"FIND": {"unit": "made"}}}},
    "GET /security/users": {"user_ids": [MADE]},
    "GET /security/roles": {"role_ids": [MADE]},
    "GET /security/policies": {"policy_ids": [POLICY]},
    "GET /security/rules": {"rule_ids": [RULE]},
    "GET /security/users/{user_id}/permissions": {"user_id": "1", "context": "{}"},
    "PUT /security/users/{user_id}": {"user_id": MADE, "body": {"password": f"{PASSWORD}2"}},
    "PUT /security/users/{user_id}/run_as": {"user_id": MADE, "allow_run_as": True},
    "PUT /security/roles/{role_id}": {"role_id": MADE, "body": {"name": "renamed"}},
    "PUT /security/policies/{policy_id}": {"policy_id": POLICY, "body": {"name": "renamed"}},
    "PUT /security/rules/{rule_id}": {"rule_id": RULE, "body": {"name": "renamed"}},
    **{
        f"{method} /security/{path}": params
        for method in ("POST", "DELETE")
        for path, params in (
            ("users/{user_id}/roles", {"user_id": MADE, "role_ids": [MADE]}),
            ("roles/{role_id}/policies", {"role_id": MADE, "policy_ids": [POLICY]}),
            ("roles/{role_id}/rules", {"role_id": MADE, "rule_ids": [RULE]}),
        )
    },
    "DELETE /security/users": {"user_ids": [MADE]},
    "DELETE /security/roles": {"role_ids": [MADE]},
    "DELETE /security/policies": {"policy_ids": [POLICY]},
    "DELETE /security/rules": {"rule_ids": [RULE]},
    "GET /security/config": {},
    "PUT /security/config": {"body": {"rbac_mode": "white"}},
    "DELETE /security/config": {},
    "PUT /security/user/revoke": {},
    # Leaves rules and decoders without their folders.
    "PUT /cluster/{node_id}/configuration": {**_NODE, "body": _MAIN_CONFIG},
    "PUT /manager/configuration": {"body": _MAIN_CONFIG},
}

FAILING: Mapping[str, int] = {
    "GET /cluster/{node_id}/stats/analysisd": 1308,
    "GET /manager/stats/analysisd": 1308,
    "GET /agents/{agent_id}/stats/{component}": 1118,
    "PUT /cluster/analysisd/reload": 1121,
    "PUT /manager/analysisd/reload": 1121,
    "PUT /agents/upgrade_custom": 1006,
    "DELETE /syscheck/{agent_id}": 1760,
    "DELETE /experimental/syscheck": 1760,
    "POST /event": 1010,
    "POST /events": 1010,
    "PUT /logtest": 1013,
    "DELETE /logtest/sessions/{token}": 1013,
}
"""The code of those for which a daemon or a file is missing."""

_METRICS = {
    "bytes": {"received": 0, "sent": 0},
    "keys_reload_count": 0,
    "messages": {
        "received_breakdown": dict.fromkeys(("control", "event", "discarded", "dequeued_after", "ping", "unknown"), 0),
        "sent_breakdown": {"ack": 0},
    },
    "queues": {"received": {"size": 131072, "usage": 0}},
    "tcp_sessions": 0,
}


class CountingLink(MemoryLink):
    """With counters of its own."""

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        if agents is not None:
            return await super().statistics(agents)
        return {"name": "secmon-remoted", "uptime": 1_700_000_000, "timestamp": 1_700_000_060, "metrics": _METRICS}


_VALUES: Mapping[Table, Mapping[str, Any]] = {
    vulnerabilities: {"external_references": '["https://example.org"]'},
    vulnerability_scans: {"feeds": "{}", "requested": 0},
}
"""Of columns that hold neither any text nor any number."""


def prepare(world: World) -> None:
    """What the examples speak of, on all nodes: an agent of beta in the group ``web``, logs, rules, links to agents."""
    stocked(world)
    for running in world.nodes.values():
        node = running.node
        node.services.agent_link = CountingLink()
        with node.agents.write() as connection:
            known = {"version": "Wazuh v4.7.0", "connection_status": "active", "group": "web", "node_name": "beta"}
            put(connection, [agent(2, os_platform="ubuntu", os_major="22", os_minor="04", os_arch="x86_64", **known)])
        for table in metadata.sorted_tables:
            store(node.inventory, table, {**full_row(table), **_VALUES.get(table, {})})
        ended = {**full_row(rootcheck_findings), "id": 3, "log": "Ending rootcheck scan."}
        store(node.inventory, rootcheck_findings, ended)
        write_silent(node.paths.silent_sources, [_SILENT])
        if node.name == "beta":
            fill(node.paths.alert_store, [alert(1, agent={"id": "002", "name": "web-2"})])
        (node.paths.shared / "web").mkdir()
        (node.paths.shared / "web/agent.conf").write_bytes(_CONF)
        (node.paths.shared / "ar.conf").write_text("restart-wazuh0 - restart - 0\n")
        (node.paths.logs / "ossec.log").write_text("2026/01/02 10:00:00 secmon-apid: INFO: x\n")
        totals = node.paths.root / f"stats/totals/{node.clock.now():%Y/%b}/ossec-totals-{node.clock.now():%d}.log"
        totals.parent.mkdir(parents=True)
        totals.write_text("9--6--61--2--0\n")
        running.control.configs["secmon-clusterd"] = {"cluster": {"name": "eu"}}
