"""Certificates, the folder they lie in, and what is wrong with them."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rpc import certificates
from secmon.cluster.rpc.certificates import NodeCredentials, PeerIdentity
from secmon.cluster.rpc.keystore import Keystore
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from tests.manual_clock import ManualClock

LIFE = timedelta(days=90)
ALPHA = PeerIdentity("alpha", "0b7c1f1e-0000-4000-8000-000000000000", is_master=False)


class _Authority:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        key, self.pem = certificates.new_authority("c" * 100, clock.now())
        self._key, self._certificate = certificates.load_key(key), x509.load_pem_x509_certificate(self.pem)

    def credentials(self, identity: PeerIdentity = ALPHA, life: timedelta = LIFE) -> NodeCredentials:
        key = certificates.new_key()
        asked = certificates.request_key(certificates.new_request(key, identity.name))
        signed = certificates.sign_node(self._certificate, self._key, asked, identity, self.clock.now(), life)
        return NodeCredentials(certificates.key_pem(key), signed, self.pem)


def test_a_certificate_says_who_it_is_for() -> None:
    authority = _Authority(ManualClock())
    assert certificates.identity_of(authority.credentials().certificate) == ALPHA
    master = PeerIdentity("master", ALPHA.installation_id, is_master=True)
    assert certificates.identity_of(authority.credentials(master).certificate) == master
    for pem in (authority.pem, b"", b"nonsense"):
        with pytest.raises(SecmonError) as caught:
            certificates.identity_of(pem)
        assert caught.value.code == 3042


def test_a_certificate_does_not_outlive_its_authority() -> None:
    clock = ManualClock()
    authority = _Authority(clock)
    clock.advance((certificates.AUTHORITY_LIFE - timedelta(days=1)).total_seconds())
    certificate = x509.load_pem_x509_certificate(authority.credentials().certificate)
    assert certificate.not_valid_after_utc == clock.now() + timedelta(days=1)


def test_defects_are_named() -> None:
    clock = ManualClock()
    authority = _Authority(clock)
    good, other = authority.credentials(), authority.credentials()
    now = clock.now()
    assert certificates.defect(good, ALPHA, now) is None
    mixed = NodeCredentials(other.key, good.certificate, good.authority)
    foreign = NodeCredentials(good.key, good.certificate, _Authority(clock).pem)
    broken = NodeCredentials(b"", good.certificate, good.authority)
    assert "not of this node's key" in str(certificates.defect(mixed, ALPHA, now))
    assert "not of this cluster" in str(certificates.defect(foreign, ALPHA, now))
    assert "not usable" in str(certificates.defect(broken, ALPHA, now))
    assert "made for alpha" in str(certificates.defect(good, PeerIdentity("beta", "x", is_master=False), now))
    assert "expired on 2026-04-01 00:00:00" in str(certificates.defect(good, ALPHA, now + LIFE))
    assert "valid from" in str(certificates.defect(good, ALPHA, now - timedelta(days=1)))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_malformed_requests_are_refused(pem: bytes) -> None:
    with pytest.raises(SecmonError):
        certificates.request_key(pem)


def test_renewal_is_due_at_two_thirds_of_the_life(tmp_path: Path) -> None:
    clock = ManualClock()
    authority = _Authority(clock)
    keystore = Keystore(Paths(tmp_path), "alpha", clock)
    assert not keystore.renewal_due()
    keystore.install(authority.credentials(keystore.identity))
    clock.advance(timedelta(days=59).total_seconds())
    assert not keystore.renewal_due()
    clock.advance(timedelta(days=1).total_seconds())
    assert keystore.renewal_due()


def test_the_keystore_survives_a_restart_and_keeps_the_key_to_itself(tmp_path: Path) -> None:
    clock, paths = ManualClock(), Paths(tmp_path)
    keystore = Keystore(paths, "alpha", clock)
    assert keystore.defect() == "no certificate"
    credentials = _Authority(clock).credentials(keystore.identity)
    keystore.install(credentials)
    again = Keystore(paths, "alpha", clock)
    assert again.current == credentials
    assert again.identity == keystore.identity
    assert again.defect() is None
    assert stat.S_IMODE((paths.cluster_tls / "node.key").stat().st_mode) == 0o600
    assert credentials.key.decode() not in repr(credentials)
    assert "made for alpha" in str(Keystore(paths, "beta", clock).defect())


def test_an_invalid_renewed_certificate_is_not_used(tmp_path: Path) -> None:
    clock = ManualClock()
    keystore = Keystore(Paths(tmp_path), "alpha", clock)
    authority = _Authority(clock)
    good = authority.credentials(keystore.identity)
    keystore.install(good)
    assert keystore.renewed(authority.credentials(keystore.identity).certificate, authority.pem)
    assert keystore.renewed(b"nonsense", authority.pem)
    assert keystore.current == good


@pytest.mark.parametrize("name", ["node.key", "node.pem", "ca.pem"])
def test_a_damaged_file_leads_to_enrolment(tmp_path: Path, name: str) -> None:
    clock, paths = ManualClock(), Paths(tmp_path)
    keystore = Keystore(paths, "alpha", clock)
    keystore.install(_Authority(clock).credentials(keystore.identity))
    (paths.cluster_tls / name).write_bytes(b"damaged")
    assert Keystore(paths, "alpha", clock).defect()
    (paths.cluster_tls / name).unlink()
    assert Keystore(paths, "alpha", clock).defect() == "no certificate"
