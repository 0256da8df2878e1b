"""Why a cluster with a store of record has no master that answers, as this node knows it."""

import asyncio
from collections.abc import Iterator

from secmon.cluster.leadership.client import LeaderClient, LeaderStatus
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.main import load_main_config


def why_no_master(paths: Paths) -> Iterator[str]:
    """Sentences; none without a store of record."""
    if load_main_config(paths).cluster.store is None:
        return
    try:
        status = asyncio.run(LeaderClient(paths).status())
    except SecmonError as error:
        yield f"Who is master is not known: secmon-leaderd does not answer: {error.message}"
        return
    yield from sentences(status)


def sentences(status: LeaderStatus) -> Iterator[str]:
    """What keeps the cluster from having a master, most telling first."""
    if status.trouble:
        yield f"The database is away since {status.trouble_since}: {status.trouble}"
    yield _term(status)
    if not status.candidates and not status.trouble:
        yield "No node can become master now."
    elif status.expired_since or status.resigned:
        yield f"Can become master: {', '.join(status.candidates) or 'not known'}"
    for node in status.unable:
        yield f"Cannot become master: {node.node} ({node.address}): {node.reason}"


def _term(status: LeaderStatus) -> str:
    term = status.term
    if term is None or not term.holder:
        return "No node has been the master yet."
    if status.resigned:
        return f"Term {term.number} of {term.holder} was resigned: {status.reason}"
    if status.expired_since:
        return f"Term {term.number} of {term.holder} has expired, at {status.expired_since}."
    since = f" since {status.since}" if status.since else ""
    return f"Term {term.number}: {term.holder} at {term.address}:{term.port} is the master{since}: {status.reason}"
