"""When a certificate that a server made for itself is due for a new one."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from secmon.common.self_signed import expires_within, self_signed
from tests.manual_clock import ManualClock


def test_ours_is_renewed_in_time() -> None:
    clock = ManualClock()
    _, certificate = self_signed("host", clock, days=10)
    assert not expires_within(certificate, clock, 9)
    assert expires_within(certificate, clock, 11)
    clock.advance(20 * 86400)
    assert expires_within(certificate, clock, 0)


def test_an_operators_is_left_alone() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mine")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(datetime(2021, 1, 1, tzinfo=UTC))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    assert not expires_within(pem, ManualClock(), 30)
    with pytest.raises(ValueError):
        expires_within(b"nothing", ManualClock(), 30)
