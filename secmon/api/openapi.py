"""The API's description, read off the catalogue: an OpenAPI 3.1 document and a table for people.

``python -m secmon.api.openapi`` prints the document; ``--table [FILE]`` prints or writes the table of
``docs/operations.md``.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from secmon import API_VERSION
from secmon.cluster.catalogue import Catalogue, Operation, Place
from secmon.cluster.parameters import NoParams, Parameter
from secmon.common.json_text import json_text
from secmon.common.outcome import Raw
from secmon.operations.all import CATALOGUE
from secmon.security.rbac.authorization import Require

Json = dict[str, Any]

_STATUSES = {
    400: "A parameter or the body is not valid, or the request cannot be done",
    401: "No valid token or credentials",
    403: "No permission, or too many failed logins from this address",
    404: "Something that the request names does not exist",
    405: "The path does not take this method",
    406: "The Content-Type is not the one expected",
    413: "The body is larger than max_upload_size",
    415: "The body is `null`, and its Content-Type is not JSON",
    429: "Too many requests in a minute",
    500: "An internal or cluster error, or the time limit",
    503: "This node is cut off from the master for too long",
}


class ItemError(msgspec.Struct, frozen=True):
    """Why ids failed."""

    code: int
    message: str
    remediation: str | UnsetType = UNSET


class FailedItems(msgspec.Struct, frozen=True):
    """Ids that failed, and why."""

    error: ItemError
    id: list[str | int]


class NodeError(msgspec.Struct, frozen=True):
    """What went wrong on a node, and where its log is."""

    error: str
    logfile: str | UnsetType = UNSET


NodeErrors = dict[str, NodeError]


class Problem(msgspec.Struct, frozen=True):
    """An error, as ``application/problem+json``."""

    title: str
    detail: str
    remediation: str | UnsetType = UNSET
    dapi_errors: NodeErrors | UnsetType = UNSET
    error: int | UnsetType = UNSET


def document(catalogue: Catalogue = CATALOGUE) -> Json:
    """The OpenAPI 3.1 document: the same bytes for the same catalogue."""
    operations = sorted(catalogue, key=lambda one: (one.path, one.method))
    schemas, components = _schemas(operations)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "secmon API REST", "version": API_VERSION},
        "servers": [{"url": "https://{host}:{port}", "variables": _SERVER_VARIABLES}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
            "responses": {str(status): _problem(text) for status, text in _STATUSES.items()},
            "schemas": dict(sorted(components.items())),
        },
    }


_SERVER_VARIABLES = {"host": {"default": "localhost"}, "port": {"default": "55000"}}

Schemas = dict[Any, Json]


def _schemas(operations: Iterable[Operation]) -> tuple[Schemas, Json]:
    """JSON Schema of every type that the operations mention, and the components these refer to."""
    types: list[Any] = [Problem, FailedItems, NodeErrors]
    for operation in operations:
        types += [one.schema for one in operation.parameters if one.schema is not bytes]
        types += [one for one in (operation.item, operation.data, *operation.extra.values()) if one is not None]
    found, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {_key(one): schema for one, schema in zip(types, found, strict=True)}, components


def _key(kind: Any) -> str:
    """Types are not always hashable (``Annotated`` with a list inside); their text is unique enough."""
    return repr(kind)


def _operation(operation: Operation, schemas: Schemas, components: Json) -> Json:
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.area],
        "parameters": [_parameter(one, schemas) for one in operation.parameters if one.location != "body"],
        "responses": _responses(operation, schemas, components),
        "x-secmon-place": operation.place.value,
        "x-secmon-permissions": [_permission(one) for one in operation.require],
    }
    if operation.auth != "bearer":
        described["security"] = [{"basic": []}] if operation.auth == "basic" else [{"bearer": []}, {}]
    if operation.deprecated:
        described["deprecated"] = True
    if operation.body is not None:
        binary = operation.body.schema is bytes
        schema = {"type": "string", "format": "binary"} if binary else schemas[_key(operation.body.schema)]
        described["requestBody"] = {
            "required": operation.body.required,
            "content": {operation.body_type: {"schema": schema}},
        }
    return described


def _parameter(parameter: Parameter, schemas: Schemas) -> Json:
    schema = _without_null(schemas[_key(parameter.schema)])
    described: Json = {"name": parameter.wire, "in": parameter.location, "required": parameter.required}
    if text := schema.pop("description", None):
        described["description"] = text
    if parameter.default not in (None, UNSET):
        schema["default"] = parameter.default
    if parameter.kind == "array":
        described |= {"style": "form", "explode": False}
    return described | {"schema": schema}


def _without_null(schema: Json) -> Json:
    """A query parameter is given or not; it is never null."""
    choices: list[Json] = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest: Json = {name: value for name, value in schema.items() if name != "anyOf"}
    if len(choices) == 1:
        return rest | choices[0]
    return rest | ({"anyOf": choices} if choices else {})


def _permission(require: Require) -> Json:
    described: Json = {"x-secmon-action": require.action, "x-secmon-resource": require.resource}
    if require.also:
        described["also"] = [_permission(one) for one in require.also]
    return described


def _responses(operation: Operation, schemas: Schemas, components: Json) -> Json:
    statuses = [400, 401, 403, 405, 413, 500, 503]
    if operation.body is not None:
        statuses.append(406)
    if operation.auth != "basic":
        statuses.append(429)
        if operation.body is not None and operation.body_type == "application/json":
            statuses.append(415)
    # What must be permitted as a whole must exist as a whole.
    names_one = operation.node_param or any(one.param and one.mode == "whole" for one in operation.require)
    conditional = operation.place is Place.MASTER_ONLY or operation.path.startswith("/experimental/")
    if names_one or "{" in operation.path or conditional:
        statuses.append(404)
    content: Json = {}
    if operation.follow is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    elif operation.auth != "scraper":
        content["application/json"] = {"schema": _success(operation, schemas, components)}
    if operation.raw_type:
        content[operation.raw_type] = {"schema": {"type": "string"}}
    return {"200": {"description": operation.summary, "content": content}} | {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)
    }


def _success(operation: Operation, schemas: Schemas, components: Json) -> Json:
    """The envelope of items, or the plain result (conventions.md 1.1)."""
    properties: Json = {}
    if operation.item is not None:
        properties["data"] = {
            "type": "object",
            "properties": {
                "affected_items": {"type": "array", "items": _items(operation, schemas, components)},
                "total_affected_items": {"type": "integer"},
                "total_failed_items": {"type": "integer"},
                "failed_items": {"type": "array", "items": schemas[_key(FailedItems)]},
                **{name: schemas[_key(kind)] for name, kind in operation.extra.items()},
            },
            "required": [
                "affected_items",
                "total_affected_items",
                "total_failed_items",
                "failed_items",
                *operation.extra,
            ],
        }
    elif operation.data is not None:
        properties["data"] = schemas[_key(operation.data)]
    if operation.data is None or operation.messages.all:
        properties["message"] = {"type": "string"}
    properties["error"] = {"type": "integer", "enum": [0, 1, 2] if operation.item is not None else [0]}
    required = list(properties)
    if operation.place in (Place.NODE, Place.NODES):
        properties["dapi_errors"] = schemas[_key(NodeErrors)]
    return {"type": "object", "properties": properties, "required": required}


def _items(operation: Operation, schemas: Schemas, components: Json) -> Json:
    """Schema of one item; where clients may ``select`` fields, also that of a part of one."""
    whole = schemas[_key(operation.item)]
    if all(one.name != "select" for one in operation.parameters):
        return whole
    return {"anyOf": [whole, _part(whole, components) | {"description": "The fields that `select` names."}]}


def _part(schema: Json, components: Json) -> Json:
    """``schema`` without the demand that members be there, at any depth of objects."""
    if reference := schema.get("$ref"):
        schema = components[reference.rsplit("/", 1)[1]]
    part = {name: value for name, value in schema.items() if name not in ("required", "title")}
    if members := part.get("properties"):
        part["properties"] = {name: _part(member, components) for name, member in members.items()}
    return part


def _problem(description: str) -> Json:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


class Description(NoParams, frozen=True, kw_only=True):
    """The description takes no parameter."""


def describe_itself(catalogue: Catalogue) -> Operation:
    """``GET /openapi.json``: the adapter's own operation, which is in no catalogue."""
    body = json_text(document(catalogue))

    async def description(ctx: object, params: Description) -> Raw:
        return Raw(body=body, content_type="application/json; charset=utf-8")

    return Operation(
        method="GET",
        path="/openapi.json",
        summary="This description.",
        params=Description,
        function=description,
        open_to_all=True,
        exempt=True,
    )


_TABLE_HEAD = """\
# Operations

Made from the catalogue by `python -m secmon.api.openapi --table docs/operations.md`; do not edit. Place: where an
operation runs (the node asked, the master, the nodes named; `master only`: the node asked, but workers refuse). Every
operation needs a token, the logins name and password.

| Method | Path | Does | Place | Permission |
|---|---|---|---|---|
"""


def operations_table(catalogue: Catalogue = CATALOGUE) -> str:
    """A Markdown table of all operations, by path."""
    order: list[Literal["GET", "POST", "PUT", "DELETE"]] = ["GET", "POST", "PUT", "DELETE"]
    operations = sorted(catalogue, key=lambda one: (one.path, order.index(one.method)))
    return _TABLE_HEAD + "".join(
        f"| {one.method} | `{one.path}` | {one.summary}{_old(one)} | {one.place.value} | {_permissions(one)} |\n"
        for one in operations
    )


def _old(operation: Operation) -> str:
    return f" Deprecated since {operation.deprecated}." if operation.deprecated else ""


def _permissions(operation: Operation) -> str:
    if operation.auth == "basic":
        return "name and password"
    texts = (
        " or ".join(f"`{each.action}` on `{each.resource}`" for each in (one, *one.also)) for one in operation.require
    )
    return ", ".join(texts) or "any token"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m secmon.api.openapi")
    parser.add_argument("--table", nargs="?", const="-", metavar="FILE", help="the table, to FILE or standard output")
    target = parser.parse_args().table
    text = json_text(document(), pretty=True).decode() + "\n" if target is None else operations_table()
    if target in (None, "-"):
        print(text, end="")
    else:
        Path(target).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
