"""secmon: a security-monitoring server whose cluster answers as one."""

from importlib.metadata import version

__version__ = version("secmon")
REVISION = 40812
"""Build revision reported by ``GET /``."""
