"""Tokens of nodes whose clocks differ."""

from datetime import timedelta

import pytest

from secmon.security.authentication_error import AuthenticationError
from secmon.security.tokens import NBF_LEEWAY_SECONDS, Tokens
from tests.manual_clock import ManualClock
from tests.operations.world import World

pytestmark = pytest.mark.anyio


async def test_a_token_of_a_worker_whose_clock_is_ahead(cluster: World) -> None:
    node = cluster.nodes["gamma"].node
    view = node.security.view()
    admin = view.user("admin")
    assert admin is not None
    # As far as two workers may differ, each from the master.
    most = 2 * node.options.get("clusterd.max_clock_skew")
    for ahead_seconds in (6, most):
        clock = ManualClock(cluster.clock.now() + timedelta(seconds=ahead_seconds))
        assert node.tokens.verify(view, Tokens(clock).issue(view, admin)).user == "admin"
    clock = ManualClock(cluster.clock.now() + timedelta(seconds=most + NBF_LEEWAY_SECONDS + 1))
    with pytest.raises(AuthenticationError):
        node.tokens.verify(view, Tokens(clock).issue(view, admin))
