"""The API description: complete, valid in itself, the same every time; the table in docs is current."""

import re
from typing import Any

import msgspec

from secmon.api.openapi import document, operations_table
from secmon.operations.all import CATALOGUE
from tests.api.toys import TOYS
from tests.folders import REPOSITORY

DOCS = REPOSITORY / "docs/operations.md"


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


def _check(described: dict[str, Any]) -> None:
    for reference in _references(described):
        target: Any = described
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
    ids = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    for path, methods in described["paths"].items():
        for one in methods.values():
            in_path = {each["name"] for each in one["parameters"] if each["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))
            assert all(each["required"] for each in one["parameters"] if each["in"] == "path")
            assert one["summary"]
            assert {"200", "401", "403"} <= set(one["responses"])


def test_document_of_the_product() -> None:
    described = document(CATALOGUE)
    _check(described)
    for operation in CATALOGUE:
        one = described["paths"][operation.path][operation.method.lower()]
        assert one["x-secmon-place"] == operation.place.value
        assert [each["x-secmon-action"] for each in one["x-secmon-permissions"]] == [
            each.action for each in operation.require
        ]
    assert msgspec.json.encode(document(CATALOGUE)) == msgspec.json.encode(described)


def test_details() -> None:
    described = document(TOYS)
    _check(described)
    login = described["paths"]["/security/user/authenticate"]
    assert login["post"]["security"] == [{"basic": []}]
    assert login["get"]["deprecated"] is True
    assert set(login["post"]["responses"]["200"]["content"]) == {"application/json", "text/plain"}
    listing = described["paths"]["/items"]["get"]
    parameters = {one["name"]: one for one in listing["parameters"]}
    assert parameters["limit"] == {
        "name": "limit",
        "in": "query",
        "required": False,
        "description": "Most elements to return.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 100000, "default": 500},
    }
    assert parameters["select"]["schema"]["type"] == "array"
    assert parameters["select"]["explode"] is False
    assert parameters["status"]["schema"] == {"enum": ["off", "on"]}
    success = listing["responses"]["200"]["content"]["application/json"]["schema"]
    items = success["properties"]["data"]["properties"]["affected_items"]["items"]
    whole, part = items["anyOf"]  # clients may select fields
    assert whole == {"$ref": "#/components/schemas/Item"}
    assert "required" not in part
    assert part["properties"].keys() == described["components"]["schemas"]["Item"]["properties"].keys()
    body = described["paths"]["/items"]["put"]["requestBody"]
    assert body["required"] is True
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/NewItem"}
    upload = described["paths"]["/files/{name}"]["put"]["requestBody"]["content"]
    assert upload == {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def test_table_is_current() -> None:
    assert DOCS.read_text("utf-8") == operations_table(CATALOGUE), "run: make docs"
