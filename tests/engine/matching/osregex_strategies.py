"""Patterns of OS_Regex and subjects, for property tests."""

from hypothesis import strategies as st

ELEMENTS = st.sampled_from(
    [
        rb"\w",
        rb"\d",
        rb"\s",
        rb"\S",
        rb"\.",
        rb"\p",
        rb"\W",
        rb"\(",
        rb"\w+",
        rb"\d*",
        rb"\S+",
        rb"\.*",
        b"a",
        b"B",
        b"=",
        b" ",
        b"+",
    ]
)
GROUPED = st.one_of(
    ELEMENTS, st.lists(ELEMENTS, min_size=1, max_size=3).map(lambda parts: b"(" + b"".join(parts) + b")")
)
PATTERNS = st.tuples(
    st.sampled_from([b"", b"^"]), st.lists(GROUPED, max_size=6).map(b"".join), st.sampled_from([b"", b"$"])
).map(b"".join)
SUBJECTS = st.text(alphabet="aAbB1 =(-.", max_size=30).map(str.encode)
_ESCAPES = st.sampled_from([*"wdstpWDS.()\\$|<"]).map(lambda name: b"\\" + name.encode())
_ELEMENTS = st.one_of(
    st.tuples(_ESCAPES, st.sampled_from([b"", b"+", b"*"])).map(b"".join),
    st.sampled_from([bytes((b,)) for b in b"aB1 =+*^$"]),
)
_PARTS = st.one_of(_ELEMENTS, st.lists(_ELEMENTS, max_size=3).map(lambda parts: b"(" + b"".join(parts) + b")"))
WHOLE_LANGUAGE = st.lists(
    st.tuples(
        st.sampled_from([b"", b"^"]), st.lists(_PARTS, max_size=6).map(b"".join), st.sampled_from([b"", b"$"])
    ).map(b"".join),
    min_size=1,
    max_size=3,
).map(b"|".join)
ANY_SUBJECT = st.one_of(
    st.text(alphabet="aAbB1 =(", max_size=8), st.text(alphabet="aAbB1 =(-.)\\$|<\t\xe4", max_size=30)
).map(lambda text: text.encode("latin-1"))
