"""From a request to the parameters of an operation (conventions.md 0, steps 7 to 11)."""

from collections.abc import Mapping
from typing import Any

from secmon.api.problems import RequestRefused
from secmon.api.request import Request, parse_query
from secmon.cluster.catalogue import Operation
from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.operations.bodies import read_body

JSON = "application/json"


def bind(operation: Operation, request: Request, path_values: Mapping[str, str]) -> Any:
    """The operation's parameters: an instance of its struct.

    Raises ``ParameterError`` (400) for the first fault, 6002 (406) for a wrong Content-Type of a good body.
    """
    try:
        query = parse_query(request.query)
    except UnicodeDecodeError:
        raise ParameterError("The query string is not UTF-8") from None
    values = read_text(operation.parameters, query, path_values)
    if operation.body is not None:
        values["body"] = _body(operation, request)
    return operation.build(values)


def _body(operation: Operation, request: Request) -> Any:
    assert operation.body is not None
    if operation.body_type != JSON:
        _check_type(operation, request)
        return request.body
    if request.media_type != JSON and request.body.strip() == b"null" and operation.auth != "basic":
        raise RequestRefused(415, f"Invalid Content-type ({request.media_type}), expected JSON data")
    try:
        body = read_body(request.body, operation.body.schema)
    except RecursionError:
        raise ParameterError("The body is nested too deeply") from None
    except ParameterError as error:
        # Unknown members are looked for after the type of the body.
        if str(error).startswith("Invalid field found"):
            _check_type(operation, request)
        raise
    _check_type(operation, request)
    return body


def _check_type(operation: Operation, request: Request) -> None:
    """Raises 6002; logins take their context under any type (conventions.md 2.2)."""
    if operation.auth != "basic" and request.media_type != operation.body_type:
        raise SecmonError(6002, f"expected {operation.body_type}, got {request.media_type}")
