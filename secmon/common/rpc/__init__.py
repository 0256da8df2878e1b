"""The link between nodes: wire format, credentials, the Peer service."""

import os

# gRPC's own lines go to standard error without node or cause; ours say both.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
