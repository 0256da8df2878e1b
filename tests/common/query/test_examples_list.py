"""The worked examples of conventions.md 5.9 for the list engine, by their numbers."""

import copy
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.common.query import Fields, Page, Query, run

RULES: list[dict[str, object]] = [
    {
        "id": 1,
        "name": "Alpha",
        "level": 3,
        "groups": ["web", "ssh"],
        "details": {"match": "foo bar"},
        "date": "2024-01-02T03:04:05Z",
    },
    {
        "id": 2,
        "name": "beta",
        "level": 10,
        "groups": ["web"],
        "details": {"match": "zzz"},
        "date": "2024-02-02T00:00:00Z",
    },
    {"id": 10, "name": "Gamma (x)", "level": 5, "groups": [], "date": "2023-12-31T23:59:59Z"},
]
FIELDS = Fields(
    engine="list",
    select=("id", "name", "level", "groups", "details", "date"),
    sort=("id", "name", "level"),
    required=("id",),
)

FOUND = [
    ("77", {"q": "name=alpha"}, ""),
    ("78a", {"q": "name~lph"}, "1"),
    ("78b", {"q": "name~LPH"}, ""),
    ("79", {"q": "level>5"}, "2"),
    ("80", {"q": "level~1"}, "2"),
    ("81", {"q": "groups=web"}, "1 2"),
    ("82", {"q": "groups!=web"}, "1"),
    ("83", {"q": "details.match~foo"}, "1"),
    ("84a", {"q": "details.zzz=1"}, ""),
    ("84b", {"q": "missing!=1"}, ""),
    ("85", {"q": "date>2024-01-01"}, "1 2"),
    ("86", {"q": "date=2024-01-02"}, ""),
    ("87", {"q": "name=Gamma (x)"}, "10"),
    ("88", {"q": "name=Alpha,name=beta;level=3"}, "1"),
    ("89 right", {"q": "(name=Alpha,name=beta);level>5"}, "2"),
    ("92", {"q": "name=all"}, ""),
    ("93a", {"search": "WEB"}, "1 2"),
    ("93b", {"search": "-web"}, "10"),
    ("94", {"sort": "-level,id"}, "2 10 1"),
]
REFUSED = [
    ("90", {"q": "name=Alpha;"}, 1407),
    ("91a right", {"q": "level>=5"}, 1409),
    ("91b right", {"q": "id=abc"}, 1407),
    ("95", {"sort": "details.match"}, 1403),
]


def ask(**parameters: Any) -> Page:
    return run(RULES, Query.parse(fields=FIELDS, **parameters), FIELDS)


@pytest.mark.parametrize(("parameters", "expected"), [pytest.param(p, e, id=number) for number, p, e in FOUND])
def test_found(parameters: dict[str, Any], expected: str) -> None:
    before = copy.deepcopy(RULES)
    page = ask(**parameters)
    assert " ".join(str(item["id"]) for item in page.items) == expected
    assert page.total == len(page.items)
    assert before == RULES


@pytest.mark.parametrize(("parameters", "code"), [pytest.param(p, c, id=number) for number, p, c in REFUSED])
def test_refused(parameters: dict[str, Any], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        ask(**parameters)
    assert caught.value.code == code


def test_96_select_of_a_path_keeps_the_required_field() -> None:
    assert ask(select="details.match").items == [
        {"id": 1, "details": {"match": "foo bar"}},
        {"id": 2, "details": {"match": "zzz"}},
        {"id": 10},
    ]
