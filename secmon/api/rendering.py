"""From results and errors of the distribution layer to responses."""

from collections.abc import Mapping
from typing import Any

from secmon.api.problems import NodeErrors, error_problem
from secmon.api.responses import JSON_TYPE, ApiResponse, Header
from secmon.cluster.catalogue import Operation
from secmon.cluster.known_resources import Inventory
from secmon.cluster.node import Node
from secmon.common.errors import Kind, SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Raw, Result, envelope, envelope_text
from secmon.common.sqlite.faults import StoreFault
from secmon.security.rbac.authorization import Authorizer, Require

_READ_NODE = Require("cluster:read", "node:id", mode="item")

FRONT = frozenset({902, 1018, 1122, 1128, 3013, 6002})
"""Codes that never carry ``dapi_errors``: the adapter's own refusals, wherever they are found (conventions.md 1.7)."""

_LOGGED = (Kind.INTERNAL, Kind.CLUSTER, Kind.UNAVAILABLE)


def render(node: Node, operation: Operation, result: Result, identity: Identity, *, pretty: bool) -> ApiResponse:
    """The response of a call that succeeded, at least in part."""
    extra = deprecation(operation) if operation.deprecated else ()
    if isinstance(result, Raw):
        return ApiResponse(200, result.body, result.content_type.encode("latin-1"), extra)
    body = envelope(result, operation.messages)
    if errors := body.get("dapi_errors"):
        body["dapi_errors"] = _hide_names(node, identity, errors)
    return ApiResponse(200, envelope_text(result, body, pretty=pretty), JSON_TYPE, extra)


def deprecation(operation: Operation) -> list[Header]:
    """Headers of a deprecated operation; a link leads to its entry in the API description (conventions.md 7.1)."""
    headers: list[Header] = [(b"deprecated", b"true")]
    if operation.auth == "basic":
        pointer = f"{operation.path.replace('/', '~1')}/{operation.method.lower()}"
        headers.append((b"link", f'</openapi.json#/paths/{pointer}>; rel="Deprecated"'.encode("ascii")))
    return headers


def render_error(node: Node, error: SecmonError, identity: Identity) -> ApiResponse:
    """The problem of a call that failed, with the nodes where it did (conventions.md 1.7)."""
    if error.code in FRONT:
        return error_problem(error)
    logfile = {"logfile": _logfile(node)} if error.kind in _LOGGED else {}
    nodes = error.nodes or {node.name: error.message}
    described = {name: {"error": text} | logfile for name, text in sorted(nodes.items())}
    return error_problem(error, _hide_names(node, identity, described))


def _hide_names(node: Node, identity: Identity, errors: Mapping[str, Any]) -> NodeErrors:
    """Nodes that the caller may not read lose their names; all do when the store of permissions cannot be read."""
    try:
        authorizer = Authorizer(identity, node.security.view(), Inventory(node), node=node.name)
        readable = set(authorizer.check(_READ_NODE, list(errors)).ids)
    except StoreFault:
        readable = set()
    named: dict[str, Any] = {}
    for name, described in errors.items():
        named.setdefault(name if name in readable else "unknown-node", described)
    return named


def _logfile(node: Node) -> str:
    name = "api.json" if "json" in node.api_config.logs.formats else "api.log"
    return f"SECMON_HOME/logs/{name}"
