"""Alerts on three nodes."""

import pytest

from tests.alerts.filled_store import fill
from tests.operations.alerts.raised import raised
from tests.operations.office import Office


@pytest.fixture
def office(hosts: Office) -> Office:
    """Alerts 1 to 6 in the order of time; agent 002 has some on two nodes, 001 and 002 one at the same moment."""
    nodes = hosts.world.nodes
    fill(nodes["alpha"].node.paths.alert_store, [raised(1, "001", 1), raised(3, "002", 3), raised(5, "000", 6)])
    fill(nodes["beta"].node.paths.alert_store, [raised(2, "002", 2), raised(4, "001", 3)])
    fill(nodes["gamma"].node.paths.alert_store, [raised(6, "004", 9, level=12)])
    return hosts
