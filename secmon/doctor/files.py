"""Certificates, and files with secrets."""

import os
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from secmon.common.file_io import read_regular
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig
from secmon.doctor.finding import Finding, ok, problem, warning

_SOON = timedelta(days=30)
_OF_OTHERS = 0o007


def check_certificates(paths: Paths, api: ApiConfig, now: datetime) -> Iterator[Finding]:
    """How long those that are there are valid."""
    own = {
        paths.ssl / api.https.cert: "put a new one there, or remove it and its key: a start makes others",
        paths.etc / "sslmanager.cert": "put a new one there, or remove it and its key: a start makes others",
        paths.cluster_tls / "node.pem": "restart the node: it gets another one from the master",
        paths.cluster_tls / "ca.pem": "remove etc/cluster on all nodes and restart them, the master first",
    }
    for path, remedy in own.items():
        if path.exists():
            yield _certificate(path, remedy, now)


def _certificate(path: Path, remedy: str, now: datetime) -> Finding:
    try:
        end = x509.load_pem_x509_certificate(read_regular(path, follow=True)).not_valid_after_utc
    except (OSError, ValueError) as error:
        return problem("certificates", f"{path} cannot be read: {error}", remedy)
    left = end - now
    if left <= timedelta():
        return problem("certificates", f"{path} has expired on {end:%Y-%m-%d}", remedy)
    if left < _SOON:
        return warning("certificates", f"{path} expires on {end:%Y-%m-%d}", remedy)
    return ok("certificates", f"{path} is valid until {end:%Y-%m-%d}")


def check_secrets(paths: Paths) -> Iterator[Finding]:
    """Whether files with secrets are closed to other users, and the folders above them to changes by others."""
    open_to_all = [path for path in _secrets(paths) if _mode(path) & _OF_OTHERS and not _closed_above(paths.root, path)]
    for path in open_to_all:
        text = f"every user of this host can open {path} (mode {_mode(path):04o})"
        yield problem("secrets", text, f"chmod o= {path}; if it was read, replace what it holds")
    if not open_to_all:
        yield ok("secrets", "files with keys and passwords are closed to other users")


def _secrets(paths: Paths) -> Iterator[Path]:
    single = (paths.main_config, paths.client_keys, paths.enrolment_password, paths.random_enrolment_password)
    for path in (*single, paths.etc / "sslmanager.key", paths.etc / "store.password", paths.agents_db):
        if path.exists():
            yield path
    for folder in (paths.security, paths.ssl, paths.cluster_tls):
        for path in sorted(folder.iterdir()) if folder.is_dir() and os.access(folder, os.R_OK) else ():
            if path.is_file() and path.suffix not in {".crt", ".pem"}:
                yield path


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _closed_above(root: Path, path: Path) -> bool:
    """Whether other users cannot enter a folder on the way from ``root``."""
    ways = [each for each in path.parents if each == root or each.is_relative_to(root)]
    return any(not _mode(each) & 0o001 for each in ways)
