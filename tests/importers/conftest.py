"""The filled security store of the security tests."""

from tests.security.conftest import clock, filled, store, tokens

__all__ = ["clock", "filled", "store", "tokens"]
