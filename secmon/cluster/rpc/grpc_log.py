"""What gRPC logs as an error and is none: a peer that is gone before its call could be answered."""

import logging

log = logging.getLogger("secmon.clusterd")

_LOGGER = "grpc._cython.cygrpc"
_PEER_GONE = "ExecuteBatchError raised in core by servicer method"


class _PeersThatAreGone(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(_PEER_GONE):
            return True
        log.debug("a peer was gone before its call was answered: %s", record.getMessage())
        return False


def quiet_peers_that_are_gone() -> None:
    """Log them at debug. A node that stops while others join, and the other way round, is no error."""
    logger = logging.getLogger(_LOGGER)
    if not any(isinstance(each, _PeersThatAreGone) for each in logger.filters):
        logger.addFilter(_PeersThatAreGone())
