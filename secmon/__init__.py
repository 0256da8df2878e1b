"""secmon: a security-monitoring server whose cluster answers as one."""

import os
from importlib.metadata import version

# gRPC's own lines go to standard error without date, node or cause; ours have them. Set before gRPC is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__version__ = version("secmon")
"""Version of the product."""
API_VERSION = "4.8.2"
"""Version of the API, which clients see and agents are judged by (docs/reference/README.md, Versions)."""
API_REVISION = 40812
"""Build revision reported by ``GET /``."""
