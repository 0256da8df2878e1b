"""Requests that schemathesis draws from the API description, with values in it that exist in the cluster."""

from copy import deepcopy
from typing import Any, NamedTuple

import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from secmon.api.openapi import document
from secmon.operations.all import CATALOGUE
from tests.fuzz.target import NODES

ONE_ANSWER = [one for one in CATALOGUE if one.follow is None]
"""Operations whose answer ends; that of a stream does not."""

NUMBERS = ["1", "2", "4", "99", "100", "101", "999", "2147483648", "9" * 18]

# By name of a parameter or member: values worth trying besides those of its declared type.
_KNOWN: dict[str, list[Any]] = {
    "node_id": list(NODES),
    "nodes_list": list(NODES),
    **{f"{kind}_id": NUMBERS for kind in ("user", "role", "policy", "rule")},
    **{f"{kind}_ids": [*NUMBERS, "all"] for kind in ("user", "role", "policy", "rule")},
    "password": ["Known-secret-1", "\x00Aa1!aaaaa", "A" * 65 + "a1!", "Ää1!éüöñß"],
    "actions": ["cluster:read", "security:update", "manager:read"],
    "resources": ["node:id:*", "node:id:worker1", "user:id:100", "*:*:*"],
    "rule": [
        {"MATCH": {"definition": "r'^x+$"}},
        {"AND": [{"FIND$": {"r'a'": "r'('"}}, {"NOT": {"MATCH": {"b": 1e300}}}]},
        {"OR": []},
    ],
    "section": ["cluster", "global"],
}


class Sent(NamedTuple):
    """One request, ready for the wire."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes | None


def strategies() -> dict[str, st.SearchStrategy[Case[Any]]]:
    """By ``METHOD path``: requests that keep to the description, and requests that break it somewhere."""
    schema = schemathesis.openapi.from_dict(_seeded())
    found = {}
    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        one = operation.ok()
        found[one.label] = one.as_strategy(generation_mode=GenerationMode.POSITIVE) | one.as_strategy(
            generation_mode=GenerationMode.NEGATIVE
        )
    return found


def prepared(case: Case[Any]) -> Sent:
    """``case`` as the bytes to send."""
    options = case.as_transport_kwargs(base_url="https://test")
    known = ("method", "url", "headers", "params", "data", "json", "cookies")
    request = requests.Request(**{name: options[name] for name in known if name in options}).prepare()
    body = request.body.encode() if isinstance(request.body, str) else request.body
    assert body is None or isinstance(body, bytes)
    kept = (one for one in (request.headers or {}).items() if one[0].lower() not in ("content-length", "connection"))
    headers = [(_octets(name), _octets(value)) for name, value in kept]
    return Sent(str(request.method), request.path_url.encode("ascii"), headers, body or None)


def _octets(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")


def _seeded() -> dict[str, Any]:
    described = deepcopy(document())
    del described["security"], described["components"]["securitySchemes"]
    for methods in described["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
            for parameter in operation["parameters"]:
                parameter["schema"] = _widened(parameter["name"], parameter["schema"])
    components = described["components"]["schemas"]
    for schema in components.values():
        _widen_members(schema)
    return described


def _widen_members(schema: dict[str, Any]) -> None:
    for name, member in schema.get("properties", {}).items():
        _widen_members(member)
        schema["properties"][name] = _widened(name, member)


def _widened(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name not in _KNOWN:
        return schema
    if schema.get("type") == "array":
        return schema | {"items": {"anyOf": [{"enum": _KNOWN[name]}, schema["items"]]}}
    return {"anyOf": [{"enum": _KNOWN[name]}, schema]}
