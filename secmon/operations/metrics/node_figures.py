"""What a node reads itself for its metrics: stores, journals, disks, certificates. Files only, no other process."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cryptography import x509

from secmon import __version__
from secmon.cluster.node import Node
from secmon.common.paths import Paths
from secmon.config.auth import read_auth
from secmon.inventory.store import store_bytes
from secmon.journal.lag import consumer_lags
from secmon.operations.metrics.daemon_counters import Sample
from secmon.operations.metrics.metric import Metric
from secmon.operations.metrics.tables.node import (
    DISK_FILES,
    DISK_FREE,
    DISK_SIZE,
    EXPIRY,
    INFO,
    LAG_BYTES,
    LAG_EVENTS,
    LEASE,
    STORE,
)

FOLDERS = ("etc", "logs", "queue")
"""Which an operator may have on file systems of their own."""


def node_samples(node: Node, journal_ends: Mapping[str, int]) -> list[Sample]:
    """``journal_ends``: number of the next event of each journal whose writer answers. Blocks.

    What cannot be read has no sample.
    """
    return [
        *_node(node),
        *_stores(node.paths),
        *_lags(node.paths, journal_ends),
        *_disks(node.paths),
        *_certificates(node),
    ]


def _node(node: Node) -> Iterator[Sample]:
    cluster = node.main_config.cluster
    labels = {"node": node.name, "role": node.role, "version": __version__, "cluster": cluster.name}
    yield Sample(INFO, labels, 1)
    remaining = node.services.lease.remaining()
    if remaining != float("inf"):
        yield Sample(LEASE, {}, max(0.0, remaining))


def _stores(paths: Paths) -> Iterator[Sample]:
    stores = {
        "security": paths.security_db,
        "agents": paths.agents_db,
        "tasks": paths.tasks_db,
        "inventory": paths.inventory_db,
    }
    for name, path in stores.items():
        with suppress(OSError):
            if path.exists():
                yield _of(STORE, store_bytes(path), store=name)


def _lags(paths: Paths, journal_ends: Mapping[str, int]) -> Iterator[Sample]:
    folders = {
        "agents": paths.events,
        "local": paths.local_events,
        "inventory": paths.inventory_events,
        "responses": paths.responses,
    }
    for name, end in journal_ends.items():
        with suppress(OSError):
            for consumer, events, size_bytes in consumer_lags(folders[name], end):
                yield _of(LAG_EVENTS, events, journal=name, reader=consumer)
                yield _of(LAG_BYTES, size_bytes, journal=name, reader=consumer)


def _disks(paths: Paths) -> Iterator[Sample]:
    for folder in FOLDERS:
        with suppress(OSError):
            found = os.statvfs(paths.root / folder)
            yield _of(DISK_FREE, found.f_bavail * found.f_frsize, folder=folder)
            yield _of(DISK_SIZE, found.f_blocks * found.f_frsize, folder=folder)
            yield _of(DISK_FILES, found.f_favail, folder=folder)


def _certificates(node: Node) -> Iterator[Sample]:
    """Those of which a lapse stops something."""
    paths, https = node.paths, node.api_config.https
    files = {
        "api": paths.ssl / https.cert if https.enabled else None,
        "enrolment": paths.root / read_auth(node.main_config).ssl_manager_cert,
        "node": paths.cluster_tls / "node.pem",
        "authority": paths.cluster_tls / "ca.pem",
    }
    for name, file in files.items():
        expiry = None if file is None else _expiry(file)
        if expiry is not None:
            yield _of(EXPIRY, expiry, certificate=name)


def _expiry(file: Path) -> float | None:
    """Of the first certificate in ``file``, in seconds since 1970; None if it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None


def _of(metric: Metric, value: float, **labels: str) -> Sample:
    return Sample(metric, labels, value)
