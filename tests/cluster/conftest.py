"""The nodes of the tests of operations, for what carries calls to them."""

from tests.operations.conftest import alone, cluster, empty_world, security_db

__all__ = ["alone", "cluster", "empty_world", "security_db"]
