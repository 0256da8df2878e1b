"""The daemons that clients know by name, and which daemon of this product does the work of each."""

from collections.abc import Mapping

DAEMONS = (
    "secmon-agentlessd",
    "secmon-analysisd",
    "secmon-authd",
    "secmon-csyslogd",
    "secmon-dbd",
    "secmon-monitord",
    "secmon-execd",
    "secmon-integratord",
    "secmon-logcollector",
    "secmon-maild",
    "secmon-remoted",
    "secmon-reportd",
    "secmon-syscheckd",
    "secmon-clusterd",
    "secmon-modulesd",
    "secmon-db",
    "secmon-apid",
)
"""In the order in which clients see them."""

LEADER = "secmon-leaderd"
"""Takes part in choosing the master; clients of the API do not know it."""

_SUBSTITUTES: Mapping[str, str] = {
    "secmon-execd": "secmon-modulesd",
    "secmon-logcollector": "secmon-analysisd",
    "secmon-monitord": "secmon-modulesd",
}


def serving_daemon(name: str) -> str:
    """The daemon that does the work of the daemon ``name``: itself, unless another one does."""
    return _SUBSTITUTES.get(name, name)
