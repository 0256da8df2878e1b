"""Certificates of the cluster: keys, requests, signing, and what a certificate says of its node.

A node certificate has the node's name as common name, ``<name>.node.secmon`` as DNS name and
``urn:secmon:node:<installation id>`` as URI; the master's also has ``master.secmon``. Keys are EC P-256, files PEM.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secmon.common.errors import SecmonError

MASTER_NAME = "master.secmon"
BACKDATED = timedelta(hours=1)
"""Certificates start this long before they are made: clocks of nodes differ a little."""
AUTHORITY_LIFE = timedelta(days=3650)
MAX_REQUEST_BYTES = 8192
_URN = "urn:secmon:node:"


@dataclass(frozen=True)
class PeerIdentity:
    """Who a certificate belongs to."""

    name: str
    installation_id: str
    is_master: bool


@dataclass(frozen=True)
class NodeCredentials:
    """What a node needs for TLS, all PEM. The key never shows in a representation."""

    key: bytes
    certificate: bytes
    authority: bytes

    def __repr__(self) -> str:
        return f"NodeCredentials({fingerprint(self.certificate).hex()[:16]})"


def node_target(name: str) -> str:
    """The TLS name of a node."""
    return f"{name}.node.secmon"


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError when ``pem`` holds no EC key."""
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an EC key")
    return key


def new_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """A certificate request of ``key``. The master takes the key from it, and the names from what was proved."""
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_subject(name))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def request_key(pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a certificate request that a stranger sent. Raises SecmonError 3042."""
    try:
        if len(pem) > MAX_REQUEST_BYTES:
            raise ValueError("too large")
        request = x509.load_pem_x509_csr(pem)
        key = request.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("not an EC P-256 key")
        if not request.is_signature_valid:
            raise ValueError("its signature is wrong")
    except (ValueError, TypeError, InvalidSignature) as error:
        raise SecmonError(3042, f"certificate request: {error}") from None
    return key


def new_authority(cluster_name: str, now: datetime) -> tuple[bytes, bytes]:
    """Key and self-signed certificate of a cluster's authority."""
    key = new_key()
    name = _subject(f"secmon cluster {cluster_name}"[:64])
    builder = _builder(name, name, key.public_key(), now, now + AUTHORITY_LIFE)
    certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(
        _usage(sign_certificates=True), critical=True
    )
    return key_pem(key), certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def sign_node(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePublicKey,
    identity: PeerIdentity,
    now: datetime,
    life: timedelta,
) -> bytes:
    """A node certificate for ``key``, valid for ``life`` and never beyond the authority's own end."""
    names: list[x509.GeneralName] = [x509.DNSName(node_target(identity.name))]
    if identity.is_master:
        names.append(x509.DNSName(MASTER_NAME))
    names.append(x509.UniformResourceIdentifier(_URN + identity.installation_id))
    end = min(now + life, authority.not_valid_after_utc)
    builder = _builder(_subject(identity.name), authority.subject, key, now, end)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return certificate.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM)


@lru_cache(maxsize=256)
def identity_of(pem: bytes) -> PeerIdentity:
    """Who the node certificate ``pem`` names. Raises SecmonError 3042 when it is none of ours."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        urns = names.get_values_for_type(x509.UniformResourceIdentifier)
        installation = next(urn.removeprefix(_URN) for urn in urns if urn.startswith(_URN))
        dns = names.get_values_for_type(x509.DNSName)
        if node_target(str(common)) not in dns:
            raise ValueError("its names differ")
    except (ValueError, LookupError, StopIteration, x509.ExtensionNotFound) as error:
        raise SecmonError(3042, f"no certificate of a cluster node: {error}") from None
    return PeerIdentity(str(common), installation, MASTER_NAME in dns)


def fingerprint(pem: bytes) -> bytes:
    """SHA-256 of the certificate's DER form."""
    return hashlib.sha256(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)).digest()


def renewal_time(pem: bytes) -> datetime:
    """When a certificate is due: two thirds of its life."""
    certificate = x509.load_pem_x509_certificate(pem)
    start = certificate.not_valid_before_utc + BACKDATED
    return start + (certificate.not_valid_after_utc - start) * 2 / 3


def damage(credentials: NodeCredentials) -> tuple[str, str] | None:
    """The file under ``etc/cluster`` that cannot be used, and why: torn, or of another pair. None when all can."""
    readers: dict[str, Callable[[], object]] = {
        "node.key": lambda: load_key(credentials.key),
        "node.pem": lambda: x509.load_pem_x509_certificate(credentials.certificate),
        "ca.pem": lambda: x509.load_pem_x509_certificate(credentials.authority),
    }
    for name, read in readers.items():
        try:
            read()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return name, f"it is damaged: no readable {'key' if name.endswith('.key') else 'certificate'}"
    certificate = x509.load_pem_x509_certificate(credentials.certificate)
    if _public(load_key(credentials.key).public_key()) != _public(certificate.public_key()):
        return "node.pem", "it is not the certificate of node.key"
    return None


def defect(credentials: NodeCredentials, identity: PeerIdentity, now: datetime) -> str | None:
    """Why ``credentials`` do not serve ``identity`` at ``now``; None when they do."""
    try:
        key = load_key(credentials.key)
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        authority = x509.load_pem_x509_certificate(credentials.authority)
        named = identity_of(credentials.certificate)
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, SecmonError) as error:
        return f"certificate not usable: {str(error) or 'it is not of this cluster'}"
    if _public(key.public_key()) != _public(certificate.public_key()):
        return "certificate not usable: it is not of this node's key"
    if named != identity:
        return f"certificate made for {named.name} ({named.installation_id})"
    return _outside(certificate, now)


def _outside(certificate: x509.Certificate, now: datetime) -> str | None:
    if now >= certificate.not_valid_after_utc:
        return f"certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if now < certificate.not_valid_before_utc:
        return f"certificate valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC only"
    return None


def validity_defect(pem: bytes, now: datetime) -> str | None:
    """Why ``now`` lies outside the life of a certificate; None when it does not. Raises ValueError (no certificate)."""
    return _outside(x509.load_pem_x509_certificate(pem), now)


def _public(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return b""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
