"""The cluster's certificate authority, on the master: ``ca.key`` (0600) and ``ca.pem`` in ``etc/cluster/``."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from secmon.cluster.rpc import certificates
from secmon.cluster.rpc.certificates import NodeCredentials, PeerIdentity
from secmon.cluster.rpc.keystore import Keystore, open_folder
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError, os_text
from secmon.common.file_io import write_file
from secmon.common.paths import Paths

T = TypeVar("T")


class Authority:
    """Signs node certificates. Created at the master's first start, valid for ten years."""

    def __init__(self, paths: Paths, cluster_name: str, clock: Clock, life: timedelta) -> None:
        """``life`` of node certificates. Raises SecmonError 3042 when the stored authority cannot be used."""
        self._clock, self._life = clock, life
        folder = open_folder(paths)
        if not (folder / "ca.key").exists():
            _create(folder, cluster_name, clock)
        self._key = _read(folder / "ca.key", certificates.load_key)
        self._certificate = _read(folder / "ca.pem", x509.load_pem_x509_certificate)
        self.pem = (folder / "ca.pem").read_bytes()
        reason = certificates.validity_defect(self.pem, clock.now())
        if self._certificate.public_key() != self._key.public_key():
            reason = "ca.pem is not the certificate of ca.key"
        if reason:
            raise SecmonError(3042, f"{folder}: {reason}; remove ca.key and ca.pem to make a new authority")

    def sign(self, key: ec.EllipticCurvePublicKey, identity: PeerIdentity) -> bytes:
        """A certificate (PEM) for ``key``. The caller has verified that the requesting node is ``identity``."""
        return certificates.sign_node(self._certificate, self._key, key, identity, self._clock.now(), self._life)

    def equip(self, keystore: Keystore) -> bool:
        """Renew the certificate of the master's own node if necessary; return whether it was renewed."""
        usable = keystore.defect() is None and keystore.current is not None and keystore.current.authority == self.pem
        if usable and not keystore.renewal_due():
            return False
        key = certificates.new_key()
        certificate = self.sign(key.public_key(), keystore.identity)
        keystore.install(NodeCredentials(certificates.key_pem(key), certificate, self.pem))
        return True


def _read(file: Path, load: Callable[[bytes], T]) -> T:
    """Load ``file``. Raises SecmonError 3042 with the remedy."""
    try:
        return load(file.read_bytes())
    except OSError as error:
        reason = os_text(error)
    except (ValueError, TypeError):
        reason = f"{file} is damaged: no readable {'key' if file.suffix == '.key' else 'certificate'}"
    raise SecmonError(
        3042, f"{reason}; put back a copy of ca.key and ca.pem, or remove both to make a new authority for the cluster"
    )


def _create(folder: Path, cluster_name: str, clock: Clock) -> None:
    """The key is written last: a crash in between leaves no authority rather than an incomplete one."""
    key, certificate = certificates.new_authority(cluster_name, clock.now())
    write_file(folder / "ca.pem", certificate)
    write_file(folder / "ca.key", key, 0o600)
