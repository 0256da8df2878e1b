"""What every answer must be: declared in the API description, and a problem document when it is an error."""

import json
from copy import deepcopy
from functools import cache
from typing import Any

import jsonschema_rs

from secmon.api.openapi import document
from secmon.cluster.catalogue import Operation
from secmon.common.errors import CATALOGUE as ERRORS
from tests.fuzz.wire import Reply

DOCUMENT = document()

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
}
"""Titles of the errors without a code (conventions.md 2)."""

ALWAYS = ("strict-transport-security", "x-frame-options", "x-content-type-options", "cache-control", "content-length")
NO_OPERATION = {308, 400, 404, 405}


def check(reply: Reply, operation: Operation | None, *, selected: bool = False) -> None:
    """``reply`` is one that ``operation`` declares; ``None``: the path or method names no operation.

    ``selected``: the client asked for some fields only, so items need not be whole.
    """
    assert reply.status, "the connection was closed without an answer"
    assert reply.status < 500, reply
    if operation is None:
        assert reply.status in NO_OPERATION, reply
        if reply.status == 308:
            location = reply.headers["location"]
            assert location.startswith("/"), reply
            assert "//" not in location.partition("?")[0], reply
            return
    else:
        declared = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
        assert str(reply.status) in declared, f"status {reply.status} is not declared: {reply}"
    for name in ALWAYS:
        assert name in reply.headers, f"no header {name}: {reply}"
    if reply.status == 200:
        assert operation is not None
        check_success(reply, operation, selected)
    else:
        check_problem(reply)


def check_success(reply: Reply, operation: Operation, selected: bool) -> None:
    """A body of one of the declared types, with nothing in it that the schema does not name."""
    kind, _, charset = reply.media_type.rpartition("; ")
    assert charset == "charset=utf-8"
    if kind == "application/json":
        _validator(operation.path, operation.method.lower(), selected).validate(json.loads(reply.body))
    else:
        assert reply.media_type in (operation.raw_type, f"{operation.raw_type}; charset=utf-8"), reply.media_type
        reply.body.decode()


def check_problem(reply: Reply) -> None:
    """Title, detail and code belong together, and to the status (conventions.md 2)."""
    assert reply.media_type == "application/problem+json; charset=utf-8", reply
    assert reply.body.endswith(b"\n"), reply
    problem = json.loads(reply.body)
    _problems().validate(problem)
    assert problem["title"], reply
    assert problem["detail"].strip(), reply
    if "error" not in problem:
        assert problem["title"] == TITLES[reply.status], reply
        return
    spec = ERRORS[problem["error"]]
    assert (spec.kind.status, spec.kind.title) == (reply.status, problem["title"]), reply
    assert problem["detail"].startswith(spec.message), reply
    assert problem.get("remediation", "").startswith(spec.remediation or ""), reply


@cache
def _validator(path: str, method: str, selected: bool) -> jsonschema_rs.Validator:
    content = DOCUMENT["paths"][path][method]["responses"]["200"]["content"]
    schema = deepcopy(content["application/json"]["schema"])
    items = schema["properties"].get("data", {}).get("properties", {}).get("affected_items")
    if items and not selected and "anyOf" in items["items"]:
        items["items"] = items["items"]["anyOf"][0]
    return _strict(schema)


@cache
def _problems() -> jsonschema_rs.Validator:
    return _strict(DOCUMENT["components"]["responses"]["400"]["content"]["application/problem+json"]["schema"])


def _strict(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Members that are not declared are errors here, though JSON Schema would let them pass."""
    return jsonschema_rs.validator_for(_closed({**schema, "components": DOCUMENT["components"]}))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
