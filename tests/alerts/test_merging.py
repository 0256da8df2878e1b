"""The answers of several nodes are what one node with all alerts would answer."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from secmon.alerts.merging import Cursor, Share, SharedAlert, SharedCounts, merge_counts, merge_pages

NODES = ("a", "b", "c")
ORDERS = st.dictionaries(st.sampled_from(NODES), st.sets(st.integers(0, 30)))


def share_of(node: str, orders: set[int], limit: int, cursor: Cursor | None) -> Share:
    """What the node answers: its newest alerts behind the cursor; as if their size were limited, sometimes fewer."""
    place = None if cursor is None else cursor.place(node)
    behind = [
        one
        for one in sorted(orders, reverse=True)
        if place is None or one < place.order or (one == place.order and place.included)
    ]
    cut = behind[: max(1, limit - (max(behind, default=0) % 3))]
    return Share([SharedAlert(one, {"at": (one, node)}) for one in cut], more=len(cut) < len(behind))


@given(ORDERS, st.integers(1, 7))
def test_pages_follow_each_other_without_gaps_and_repeats(held: dict[str, set[int]], limit: int) -> None:
    cursor, found = None, []
    while True:
        page = merge_pages({node: share_of(node, orders, limit, cursor) for node, orders in held.items()}, limit)
        assert len(page.alerts) <= limit
        found += [one["at"] for one in page.alerts]
        if page.following is None:
            break
        assert page.alerts, "a page that is followed by another has alerts"
        cursor = Cursor.parse(str(page.following))
    everything = [(order, node) for node, orders in held.items() for order in orders]
    assert found == sorted(everything, key=lambda one: (-one[0], one[1]))


COUNTS = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 50)), max_size=4)


@given(COUNTS, st.integers(1, 8))
def test_counts_are_those_of_all(held: list[dict[str, int]], limit: int) -> None:
    merged = merge_counts([SharedCounts(counts, sum(counts.values())) for counts in held], limit)
    everything = sum((Counter(counts) for counts in held), Counter[str]())
    assert merged.counts == sorted(everything.items(), key=lambda item: (-item[1], item[0]))[:limit]
    assert merged.error == 0
    assert merged.total == everything.total()


@given(COUNTS, st.integers(1, 5))
def test_counts_of_nodes_that_leave_values_out_are_wrong_by_no_more_than_is_said(
    held: list[dict[str, int]], kept: int
) -> None:
    shares = []
    for counts in held:
        ordered = Counter(counts).most_common()
        missing = ordered[kept][1] if len(ordered) > kept else 0
        shares.append(SharedCounts(dict(ordered[:kept]), sum(counts.values()), missing))
    everything = sum((Counter(counts) for counts in held), Counter[str]())
    merged = merge_counts(shares, 100)
    shown = dict(merged.counts)
    for value, count in everything.items():
        assert count - merged.error <= shown.get(value, 0) <= count
