"""The index of patterns against testing each requirement."""

from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.matching.pattern_index import LONG, PatternIndex, Requirement

LITERALS = st.lists(st.text("abc", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=3).map(tuple)
REQUIREMENTS = st.builds(
    Requirement, st.none() | LITERALS, st.none() | st.frozensets(st.sampled_from(b"abc"), min_size=1)
)


@given(st.lists(REQUIREMENTS, max_size=8), st.text("abc", max_size=12).map(str.encode), st.booleans())
def test_an_index_leaves_out_no_pattern_that_can_match(
    requirements: list[Requirement], text: bytes, long: bool
) -> None:
    text += b"." * LONG * long
    index = PatternIndex((1 << at, one) for at, one in enumerate(requirements))
    found = index.possible(text)
    for at, (literals, first_bytes) in enumerate(requirements):
        possible = (literals is None or any(one in text for one in literals)) and (
            first_bytes is None or text[:1] in (bytes((one,)) for one in first_bytes)
        )
        assert found >> at & 1 or not possible
        if literals is not None and min(map(len, literals)) >= 3:
            assert (found >> at & 1) == possible
