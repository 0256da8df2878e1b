"""Errors that gRPC logs."""

import logging

import pytest

from secmon.cluster.rpc.grpc_log import quiet_peers_that_are_gone


def test_a_peer_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    quiet_peers_that_are_gone()
    quiet_peers_that_are_gone()
    logger = logging.getLogger("grpc._cython.cygrpc")
    logger.error("ExecuteBatchError raised in core by servicer method [/secmon.Membership/Join]")
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    logger.error("Unexpected [%s]", "RuntimeError")
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == ["Unexpected [RuntimeError]"]
