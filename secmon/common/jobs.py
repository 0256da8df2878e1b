"""Daemons that clients know by name and whose job another daemon of this product does."""

from collections.abc import Mapping

_DOERS: Mapping[str, str] = {
    "secmon-db": "secmon-modulesd",
    "secmon-execd": "secmon-modulesd",
    "secmon-logcollector": "secmon-analysisd",
    "secmon-monitord": "secmon-modulesd",
}


def doer(daemon: str) -> str:
    """The daemon that does the job of ``daemon``: itself, unless another does."""
    return _DOERS.get(daemon, daemon)
