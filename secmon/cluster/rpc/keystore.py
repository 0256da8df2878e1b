"""A node's key, certificate and installation id in ``etc/cluster/``, and the credentials in use.

Files: ``node.key`` (0600), ``node.pem``, ``ca.pem``, ``installation_id``; the folder has mode 0750.
"""

import logging
import uuid
from pathlib import Path

from secmon.cluster.rpc import certificates
from secmon.cluster.rpc.certificates import NodeCredentials, PeerIdentity
from secmon.common.clock import Clock
from secmon.common.file_io import write_file
from secmon.common.paths import Paths

log = logging.getLogger("secmon.clusterd")


def open_folder(paths: Paths) -> Path:
    """The folder, made when it is missing."""
    folder = paths.cluster_tls
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    return folder


def installation_id(folder: Path) -> str:
    """The installation's UUID, made at first use."""
    path = folder / "installation_id"
    try:
        return str(uuid.UUID(path.read_text("ascii").strip()))
    except (FileNotFoundError, ValueError):
        made = str(uuid.uuid4())
        write_file(path, f"{made}\n".encode())
        return made


class Keystore:
    """Credentials of one node. ``current`` may be read from any thread; it is replaced as a whole."""

    def __init__(self, paths: Paths, node_name: str, clock: Clock, *, is_master: bool = False) -> None:
        self._folder = open_folder(paths)
        self._clock = clock
        self.identity = PeerIdentity(node_name, installation_id(self._folder), is_master)
        self._due = clock.now()
        self._damage = ""
        self.current = self._load()
        """None until the node has credentials."""

    def _load(self) -> NodeCredentials | None:
        try:
            key, certificate, authority = (
                (self._folder / name).read_bytes() for name in ("node.key", "node.pem", "ca.pem")
            )
        except FileNotFoundError:
            return None
        found = NodeCredentials(key, certificate, authority)
        damage = certificates.damage(found)
        if damage is not None:
            name, reason = damage
            self._damage = f"{name} could not be used: {reason}"
            log.warning("%s: %s; this node gets a new key and certificate", self._folder / name, reason)
            return None
        self._due = certificates.renewal_time(certificate)
        return found

    def defect(self) -> str | None:
        """Why the node needs a new certificate before it can join; None if it does not."""
        if self.current is None:
            return self._damage or "no certificate"
        return certificates.defect(self.current, self.identity, self._clock.now())

    def renewal_due(self) -> bool:
        """Whether two thirds of the certificate's life have passed."""
        return self.current is not None and self._clock.now() >= self._due

    def install(self, credentials: NodeCredentials) -> None:
        """Store ``credentials`` and use them from the next handshake on.

        A crash between two of the files leaves files that do not match; :meth:`defect` finds it, and the node enrols.
        """
        due = certificates.renewal_time(credentials.certificate)
        if self.current is None or self.current.key != credentials.key:
            write_file(self._folder / "node.key", credentials.key, 0o600)
        if not (self._folder / "ca.pem").exists() or (self._folder / "ca.pem").read_bytes() != credentials.authority:
            write_file(self._folder / "ca.pem", credentials.authority)
        write_file(self._folder / "node.pem", credentials.certificate)
        self._due = due
        self.current = credentials

    def renewed(self, certificate: bytes, authority: bytes) -> str | None:
        """Use a renewed certificate of the same key, or return why it is not valid; the old one then stays in use."""
        assert self.current is not None
        candidate = NodeCredentials(self.current.key, certificate, authority)
        reason = certificates.defect(candidate, self.identity, self._clock.now())
        if reason is None:
            self.install(candidate)
        return reason
