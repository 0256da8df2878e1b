"""``/manager`` and its twin ``/cluster/{node_id}``: one node's configuration, status and control (manager.md)."""

import asyncio
import ssl
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon import API_VERSION
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Node
from secmon.cluster.parameters import Common, Names
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Raw, Result
from secmon.config.as_json import JsonObject, convert_main, mask_secrets, select
from secmon.config.checks import bounded, installation_warnings, invalid, validate_installation
from secmon.config.masking import mask_text
from secmon.config.xml import parse_xml
from secmon.operations.permissions import NodeList, NodePath, on_manager, on_node, on_nodes


class ManagerInfo(Struct):
    """What runs on a node."""

    path: str
    version: str
    type: Literal["server"]
    max_agents: str
    openssl_support: str
    tz_offset: str
    tz_name: str


class ApiConfigItem(Struct):
    """The API configuration of a node, in effect."""

    node_name: str
    node_api_config: dict[str, Any]


class Validation(Struct):
    """A node whose files are valid."""

    name: str
    status: Literal["OK"]


Section = Literal[
    "active-response", "agentless", "alerts", "auth", "client", "client_buffer", "cluster", "command",
    "database_output", "email_alerts", "global", "integration", "labels", "localfile", "logging", "remote", "reports",
    "rootcheck", "ruleset", "sca", "silent_sources", "socket", "syscheck", "syslog_output",
    "vulnerability-detection", "indexer", "aws-s3", "azure-logs", "cis-cat", "docker-listener", "open-scap", "osquery",
    "syscollector",
]  # fmt: skip


class _Selection(Common, frozen=True, kw_only=True):
    raw: Annotated[bool, Meta(description="Answer with the file itself.")] = False
    section: Annotated[Section | None, Meta(description="Only this section.")] = None
    field: Annotated[Names | None, Meta(description="Only this field of the section.")] = None


class ConfigurationQuery(_Selection, frozen=True, kw_only=True):
    """Which part of the main configuration."""

    distinct: bool = False


class NodeConfigurationQuery(_Selection, frozen=True, kw_only=True):
    """Which part of the main configuration of which node."""

    node_id: Names


STATUS = Messages(all="The state of the daemons was read", none="No state was read")
INFO = Messages(all="The node's information was read", none="No information was read")
API_CONFIG = Messages(
    all="The API configuration was read",
    some="The API configuration of some nodes was read",
    none="No API configuration was read",
)
CONFIGURATION = Messages(all="The configuration was read", none="No configuration was read")
VALIDATION = Messages(
    all="The configuration is valid",
    some="The configuration of some nodes is not valid, or could not be checked",
    none="No configuration was found valid",  # also when the caller may read no node
)
RESTART = Messages(
    all="The restart was requested", some="The restart of some nodes was requested", none="No restart was requested"
)


@operation(
    "GET", "/manager/status", params=Common, require=(on_manager("read"),), messages=STATUS, item=dict[str, str],
    exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/status", params=NodePath, place=Place.NODE, node_param="node_id",
    require=(on_node("read"),), messages=STATUS, item=dict[str, str], needs_cluster=True, exempt=True,
)  # fmt: skip
async def status(ctx: Context, params: Common) -> Outcome:
    """State of the daemons."""
    return Outcome(items=[dict(await ctx.node.services.control.checked_states())])


@operation(
    "GET", "/manager/info", params=Common, require=(on_manager("read"),), messages=INFO, item=ManagerInfo, exempt=True
)
@operation(
    "GET", "/cluster/{node_id}/info", params=NodePath, place=Place.NODE, node_param="node_id",
    require=(on_node("read"),), messages=INFO, item=ManagerInfo, needs_cluster=True, exempt=True,
)  # fmt: skip
async def info(ctx: Context, params: Common) -> Outcome:
    """Version, place and time zone."""
    local = ctx.node.clock.now().astimezone()
    item = {
        "path": str(ctx.node.paths.root),
        "version": f"v{API_VERSION}",
        "type": "server",
        "max_agents": "unlimited",
        "openssl_support": "yes" if ssl.OPENSSL_VERSION else "no",
        "tz_offset": local.strftime("%z"),
        "tz_name": local.strftime("%Z"),
    }
    return Outcome(items=[item])


@operation(
    "GET", "/manager/api/config", params=Common, require=(on_manager("read_api_config"),), messages=API_CONFIG,
    item=ApiConfigItem, exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/api/config", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"), on_nodes("read_api_config")), messages=API_CONFIG, item=ApiConfigItem,
    needs_cluster=True, exempt=True,
)  # fmt: skip
async def api_config(ctx: Context, params: Common) -> Outcome:
    """The API configuration, in effect."""
    node = ctx.node
    return Outcome(items=[{"node_name": node.name, "node_api_config": node.api_config.as_dict(node.paths)}])


@operation(
    "GET", "/manager/configuration", params=ConfigurationQuery, require=(on_manager("read"),), messages=CONFIGURATION,
    item=dict[str, Any], raw_type="application/xml", exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/configuration", params=NodeConfigurationQuery, place=Place.NODE, node_param="node_id",
    require=(on_node("read"),), messages=CONFIGURATION, item=dict[str, Any], raw_type="application/xml",
    needs_cluster=True, exempt=True,
)  # fmt: skip
async def configuration(ctx: Context, params: ConfigurationQuery | NodeConfigurationQuery) -> Result:
    """The main configuration on disk; only callers who may update it see its secrets."""
    data = await asyncio.to_thread(_read_main, ctx.node)
    clear = await ctx.allows(on_manager("update_config"))
    outcome = Outcome()
    try:
        if params.raw:
            shown = data if clear else await asyncio.to_thread(_mask, data)
            return Raw(body=shown, content_type="application/xml; charset=utf-8")
        picked = await asyncio.to_thread(_convert, data, params)
    except SecmonError as error:
        outcome.fail(error, ctx.node.name)
        return outcome
    outcome.items.append(picked if clear else mask_secrets(picked))
    return outcome


def _read_main(node: Node) -> bytes:
    try:
        return node.paths.main_config.read_bytes()
    except OSError as error:
        raise SecmonError(1006, f"{node.paths.main_config.name}: {error.strerror}") from None


def _mask(data: bytes) -> bytes:
    return mask_text(data.decode("utf-8", "replace")).encode()


def _convert(data: bytes, params: ConfigurationQuery | NodeConfigurationQuery) -> JsonObject:
    """The part asked for. Raises 1101, 1102, 1103, 1106."""
    picked = select(convert_main(parse_xml(data, "ossec.conf", code=1101)), params.section, params.field)
    ruleset = picked.get("ruleset")
    if isinstance(params, ConfigurationQuery) and params.distinct and isinstance(ruleset, dict):
        for name in ("decoder_dir", "rule_dir"):
            folders = ruleset.get(name)
            if isinstance(folders, list):
                ruleset[name] = [each for index, each in enumerate(folders) if each not in folders[:index]]
    return picked


@operation(
    "GET", "/manager/configuration/validation", params=Common, require=(on_manager("read"),), messages=VALIDATION,
    item=Validation, exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/configuration/validation", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"),), messages=VALIDATION, item=Validation, needs_cluster=True, exempt=True,
)  # fmt: skip
async def validation(ctx: Context, params: Common) -> Outcome:
    """Check the files on disk: main configuration, API configuration, internal options, ruleset.

    What is valid but has no effect is named in the message.
    """
    node = ctx.node
    outcome = await _validated(node, {"name": node.name, "status": "OK"})
    if outcome.items:
        outcome.notes += [f"{node.name}: {one}" for one in bounded(await asyncio.to_thread(_warnings, node))]
    return outcome


def _warnings(node: Node) -> list[str]:
    """Without the folder of the installation in the names of files."""
    return [one.removeprefix(f"{node.paths.root}/") for one in installation_warnings(node.paths)]


async def _broken_ruleset(node: Node) -> list[str]:
    """Why the engine cannot use the ruleset on disk; empty when it can. Raises 1904."""
    validation = node.services.validation
    return [finding.text for finding in await validation.findings() if finding.error] if validation is not None else []


async def _validated(node: Node, item: Any) -> Outcome:
    """``item`` when the files on disk are valid; otherwise the node fails with everything that is wrong."""
    outcome = Outcome()
    problems = await asyncio.to_thread(validate_installation, node.paths)
    broken = [] if problems else await _broken_ruleset(node)
    if problems:
        outcome.fail(invalid(problems), node.name)
    elif broken:
        outcome.fail(SecmonError(1908, ", ".join(broken)), node.name)
    else:
        outcome.items.append(item)
    return outcome


@operation(
    "PUT", "/manager/restart", params=Common, require=(on_manager("read"), on_manager("restart")), messages=RESTART,
    item=str, exempt=True,
)  # fmt: skip
@operation(
    "PUT", "/cluster/restart", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"), on_nodes("restart")), messages=RESTART, item=str, needs_cluster=True, exempt=True,
)  # fmt: skip
async def restart(ctx: Context, params: Common) -> Outcome:
    """Restart the daemons, if the files on disk are valid. The answer comes before the restart."""
    outcome = await _validated(ctx.node, ctx.node.name)
    if outcome.items:
        await ctx.node.services.control.restart()
    return outcome
