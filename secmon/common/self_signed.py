"""Certificates that servers make for themselves when an installation brings none (conventions.md 10.3)."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secmon.common.clock import Clock

_ORGANIZATION = "secmon"


def self_signed(host_name: str, clock: Clock, *, days: int = 365) -> tuple[bytes, bytes]:
    """A new RSA 2048 key and its certificate, both PEM: valid for ``days``, for localhost and ``host_name``."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "California"),
            x509.NameAttribute(NameOID.LOCALITY_NAME, "San Francisco"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, "secmon"),
        ]
    )
    names = dict.fromkeys(["localhost", host_name])
    alternatives = [x509.DNSName(name) for name in names if name.isascii() and name]
    now = clock.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([*alternatives, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem, certificate.public_bytes(serialization.Encoding.PEM)


def expires_within(certificate_pem: bytes, clock: Clock, days: int) -> bool:
    """Whether this is a certificate that :func:`self_signed` made, and ends within ``days`` or has ended.

    What an operator has put there is not ours to judge. Raises ValueError for what is no certificate.
    """
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    names = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    ours = certificate.subject == certificate.issuer and [name.value for name in names] == [_ORGANIZATION]
    return ours and certificate.not_valid_after_utc < clock.now() + datetime.timedelta(days=days)
