"""Query-language texts: well formed, nearly so, and not at all."""

from typing import Any

from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from tests.fuzz.oracle import DOCUMENT

OPERATORS = st.sampled_from(["=", "!=", "<", ">", "~"])
WRONG_OPERATORS = st.sampled_from(["==", ">=", "<=", "<>", "=>", "=~", "!", "", "=="])
TEXT = st.text(st.characters(exclude_categories=[]), max_size=12)  # lone surrogates included
SIGNS = ["", " ", "%", "_", "\x00", "\n", "\u2028", "\U0010ffff", "'", '"', "\\", "[", "]", "((", "))", "{", "\u0660"]
VALUES = ["null", "all", "-1", "1e400", "9" * 400, "NaN", "2024-02-30", "0000-00-00", "9999-12-31T23:59:59Z", "7d"]
NASTY = st.sampled_from([*SIGNS, *VALUES, "9" * 20 + "d"])
NUMBERS = st.integers().map(str) | st.sampled_from(
    ["+1", "01", " 1", "1_0", "١", "-0", "1.0", "9" * 30, "0x1", "100001"]
)


def names_in(schema: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of all members, at any depth."""
    if reference := schema.get("$ref"):
        schema = DOCUMENT["components"]["schemas"][reference.rsplit("/", 1)[1]]
    if choices := schema.get("anyOf"):
        return names_in(choices[0], prefix)
    found: list[str] = []
    for name, member in schema.get("properties", {}).items():
        found += [prefix + name, *names_in(member, f"{prefix}{name}.")]
    return found


def fields_of(operation: Operation) -> st.SearchStrategy[str]:
    """Names of an item's members, and names that are none."""
    data = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]["200"]["content"]
    properties = data["application/json"]["schema"]["properties"]["data"].get("properties", {})
    real = names_in(properties["affected_items"]["items"]) if "affected_items" in properties else []
    return st.sampled_from([*real, *real, "", "nothing", "id.id", ".", "..", "password", "__class__", "a" * 300])


def queries(fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Values of ``q``."""
    value = (
        TEXT
        | NASTY
        | st.text("abc019 .-_", min_size=1, max_size=6)
        | st.sampled_from(["a", "1", "(a)", "[a,b]", "admin", "worker1", "info", "{}", "true"])
    )
    clause = st.tuples(fields, OPERATORS | OPERATORS | OPERATORS | WRONG_OPERATORS, value).map("".join)
    joined = st.recursive(
        clause,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3).flatmap(
                lambda terms: st.sampled_from([";", ","]).map(lambda sign: sign.join(terms))
            )
            | inner.map("({})".format)
        ),
        max_leaves=6,
    )
    deep = st.sampled_from(["(" * 200 + "a=1" + ")" * 200, ";".join(["a=1"] * 400), "(" * 1500, "a=" + "(" * 900])
    return joined | joined | deep | TEXT


def listings(operation: Operation) -> st.SearchStrategy[dict[str, str]]:
    """Any of the parameters that the operation takes."""
    fields = fields_of(operation)
    signed = st.tuples(st.sampled_from(["", "-", "+", " ", "--"]), fields).map("".join)
    numbers = st.sampled_from(["0", "1", "2", "500", "100000"]) | NUMBERS
    flags = st.sampled_from(["true", "false", "TRUE", "yes", "1", ""])
    known: dict[str, st.SearchStrategy[str]] = {
        "q": queries(fields),
        "sort": st.lists(signed, min_size=1, max_size=3).map(",".join) | TEXT | NASTY,
        "search": st.tuples(st.sampled_from(["", "-"]), TEXT | NASTY | st.just("a")).map("".join),
        "select": st.lists(fields, min_size=1, max_size=4).map(",".join) | TEXT | NASTY,
        "distinct": flags,
        "offset": numbers,
        "limit": numbers,
        "pretty": flags,
    }
    rest = {one.wire: TEXT | NASTY | NUMBERS for one in operation.parameters if one.location == "query"}
    taken = {name: known.get(name, value) for name, value in rest.items() if name != "wait_for_complete"}
    return st.fixed_dictionaries({}, optional=taken).flatmap(_sometimes_strange)


def _sometimes_strange(values: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """Once in a while a name that is no parameter."""
    strange = st.dictionaries(TEXT, TEXT, min_size=1, max_size=1).map(lambda more: values | more)
    return st.just(values) | st.just(values) | st.just(values) | strange
