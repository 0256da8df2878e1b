"""Pauses between attempts to join."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.worker.reconnect_backoff import ReconnectBackoff


@settings(max_examples=100)
@given(st.integers(), st.floats(0.01, 1), st.floats(0.01, 60))
def test_pauses_stay_within_growing_bounds(seed: int, low: float, high: float) -> None:
    backoff = ReconnectBackoff(low, high, random.Random(seed))
    for attempt in range(1, 12):
        assert low <= backoff.next() <= max(low, min(high, low * 2**attempt))
    backoff.reset()
    assert backoff.next() <= max(low, min(high, low * 2))


def test_nodes_spread() -> None:
    pauses = {ReconnectBackoff(0.2, 10, random.Random(seed)).next() for seed in range(20)}
    assert len(pauses) == 20
