"""Finding operations by path and method."""

import pytest

from secmon.api.routes import RouteTable
from tests.api.toys import TOYS

ROUTES = RouteTable(TOYS)


@pytest.mark.parametrize(
    ("path", "method", "name", "values"),
    [
        ("/", "GET", "GET /", {}),
        ("/items", "GET", "GET /items", {}),
        ("/items/", "PUT", "PUT /items", {}),
        ("/items/special", "GET", "GET /items/special", {}),
        ("/items/special/", "GET", "GET /items/special", {}),
        ("/items/speci%61l", "GET", "GET /items/special", {}),
        ("/items/other", "GET", "GET /items/{name}", {"name": "other"}),
        ("/items/other/", "GET", "GET /items/{name}", {"name": "other"}),
        ("/items/a%2Fb", "GET", "GET /items/{name}", {"name": "a/b"}),
        ("/items/%C3%A9%00", "GET", "GET /items/{name}", {"name": "é\0"}),
        ("/items/a%252Fb", "GET", "GET /items/{name}", {"name": "a%2Fb"}),
        ("/%69tems", "GET", "GET /items", {}),
    ],
)
def test_found(path: str, method: str, name: str, values: dict[str, str]) -> None:
    found = ROUTES.find(path, method)
    assert found.operation is not None
    assert found.operation.name == name
    assert found.values == values


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/items", {"GET", "PUT"}),
        ("/items/special", {"GET"}),
        ("/items/x", {"GET"}),
        ("/", {"GET"}),
        ("/nothing", set()),
        ("/items/a/b", set()),
        ("/items//", set()),
        ("//items", set()),
        ("/items%2Fspecial", set()),
        ("/Items", set()),
    ],
)
def test_methods_of_a_path(path: str, methods: set[str]) -> None:
    found = ROUTES.find(path, "PATCH")
    assert found.operation is None
    assert found.methods == methods


def test_not_utf8() -> None:
    with pytest.raises(ValueError):
        ROUTES.find("/items/%ff", "GET")
