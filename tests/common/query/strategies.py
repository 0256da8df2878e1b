"""Hypothesis strategies shared by the property tests."""

import string

from hypothesis import strategies as st

from secmon.common.query import And, Clause, Node, Op, Or

# Starts that cannot be read as part of an operator.
_START = string.ascii_letters + string.digits + "é٣_-.:?\\/'\"@%{}"
_REST = _START + " =<>"


def values() -> st.SearchStrategy[str]:
    """Values as the parser yields them, with balanced parentheses now and then."""
    plain = st.builds(str.__add__, st.sampled_from(_START), st.text(_REST, max_size=8))
    return st.one_of(plain, st.builds("{0} ({1})".format, plain, plain))


def nodes(fields: st.SearchStrategy[str], contents: st.SearchStrategy[str], leaves: int = 8) -> st.SearchStrategy[Node]:
    """Trees as the parser yields them: every And and Or has two terms or more."""
    clauses: st.SearchStrategy[Node] = st.builds(Clause, fields, st.sampled_from(Op), contents)

    def deeper(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        terms = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.one_of(st.builds(And, terms), st.builds(Or, terms))

    return st.recursive(clauses, deeper, max_leaves=leaves)
