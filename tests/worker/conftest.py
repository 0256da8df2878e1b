"""The nodes of the tests of operations, for calls between them."""

from tests.operations.conftest import cluster, empty_world, security_db

__all__ = ["cluster", "empty_world", "security_db"]
