"""Certificates and TLS settings (conventions.md 10.3)."""

import datetime
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtensionOID, NameOID

from secmon.api.tls import ensure_certificate, server_context
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.self_signed import self_signed
from secmon.config.api import Https, parse_api_config
from tests.api.conftest import Serve
from tests.api.toys import api_config
from tests.manual_clock import ManualClock

CLOCK = SystemClock()


@pytest.fixture(scope="session")
def pair() -> tuple[bytes, bytes]:
    """A key and its certificate."""
    return self_signed("node.example", CLOCK)


@pytest.fixture
def paths(tmp_path: Path, pair: tuple[bytes, bytes]) -> Paths:
    """An installation with that pair."""
    paths = Paths(tmp_path)
    paths.ssl.mkdir(parents=True)
    (paths.ssl / "server.key").write_bytes(pair[0])
    (paths.ssl / "server.crt").write_bytes(pair[1])
    return paths


def test_generated_certificate(pair: tuple[bytes, bytes]) -> None:
    certificate = x509.load_pem_x509_certificate(pair[1])
    key = serialization.load_pem_private_key(pair[0], password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert (key.key_size, key.public_key().public_numbers().e) == (2048, 65537)
    assert pair[0].startswith(b"-----BEGIN PRIVATE KEY-----")
    assert isinstance(certificate.signature_hash_algorithm, hashes.SHA256)
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lifetime == datetime.timedelta(days=365)
    names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(names, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "node.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert certificate.subject.get_attributes_for_oid(NameOID.COUNTRY_NAME)[0].value == "US"
    assert certificate.subject == certificate.issuer


@pytest.mark.parametrize("missing", ["server.key", "server.crt"])
def test_both_are_made_when_either_is_missing(paths: Paths, missing: str) -> None:
    (paths.ssl / missing).unlink()
    before = {file.name: file.read_bytes() for file in paths.ssl.iterdir()}
    assert ensure_certificate(paths, Https(), CLOCK)
    for file in paths.ssl.iterdir():
        assert file.stat().st_mode & 0o777 == 0o400
        assert before.get(file.name) != file.read_bytes()
    assert sorted(file.name for file in paths.ssl.iterdir()) == ["server.crt", "server.key"]
    server_context(paths, Https())
    assert not ensure_certificate(paths, Https(), CLOCK)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "api").write_text("a file where a folder should be")
    with pytest.raises(SecmonError, match=r"2003: .*api"):
        ensure_certificate(Paths(tmp_path), Https(), ManualClock())


def test_versions(paths: Paths) -> None:
    auto = server_context(paths, Https(ssl_protocol="auto"))
    assert auto.minimum_version == ssl.TLSVersion.TLSv1_2
    assert auto.maximum_version == ssl.TLSVersion.MAXIMUM_SUPPORTED
    assert server_context(paths, Https(ssl_protocol="TLS")).minimum_version == ssl.TLSVersion.TLSv1_2
    exact = server_context(paths, Https(ssl_protocol="tlsv1.2"))
    assert exact.minimum_version == exact.maximum_version == ssl.TLSVersion.TLSv1_2
    for name, version in (("TLSv1", ssl.TLSVersion.TLSv1), ("TLSv1.1", ssl.TLSVersion.TLSv1_1)):
        old = server_context(paths, Https(ssl_protocol=name))
        assert old.minimum_version == old.maximum_version == version


def test_ciphers(paths: Paths) -> None:
    context = server_context(paths, Https(ssl_protocol="TLSv1.2", ssl_ciphers="ecdhe-rsa-aes256-gcm-sha384"))
    assert "ECDHE-RSA-AES256-GCM-SHA384" in {one["name"] for one in context.get_ciphers()}
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in {one["name"] for one in context.get_ciphers()}
    with pytest.raises(SecmonError, match=r"2003: .*https\.ssl_ciphers: 'nonsense'"):
        server_context(paths, Https(ssl_ciphers="nonsense"))


def test_key_of_another_certificate(paths: Paths) -> None:
    (paths.ssl / "server.key").write_bytes(self_signed("other", CLOCK)[0])
    with pytest.raises(SecmonError, match=r"server\.key: the key does not belong to the certificate"):
        server_context(paths, Https())


def test_garbage_and_absent_files(paths: Paths) -> None:
    with pytest.raises(SecmonError, match=r"other\.key: no such file"):
        server_context(paths, Https(key="other.key"))
    with pytest.raises(SecmonError, match=r"ca\.crt: "):
        server_context(paths, Https(use_ca=True))
    (paths.ssl / "ca.crt").write_text("nonsense")
    with pytest.raises(SecmonError, match=r"ca\.crt: not a PEM certificate"):
        server_context(paths, Https(use_ca=True))
    (paths.ssl / "server.key").write_text("nonsense")
    with pytest.raises(SecmonError, match=r"server\.key: no readable key"):
        server_context(paths, Https())


def test_pass_phrase(paths: Paths, pair: tuple[bytes, bytes]) -> None:
    key = serialization.load_pem_private_key(pair[0], password=None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"open sesame"),
    )
    (paths.ssl / "server.key").write_bytes(encrypted)
    server_context(paths, Https(), "open sesame")
    for wrong in (None, "", "wrong"):
        with pytest.raises(SecmonError, match=r"2003: .*server\.key: "):
            server_context(paths, Https(), wrong)


@pytest.mark.anyio
async def test_tls_1_2_exactly(serve: Serve) -> None:
    async with serve(api_config(https=Https(ssl_protocol="TLSv1.2"))) as toy:
        assert (await toy.client.get("/nothing")).status_code == 404
        newer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        newer.check_hostname, newer.verify_mode = False, ssl.CERT_NONE
        newer.minimum_version = ssl.TLSVersion.TLSv1_3
        async with httpx.AsyncClient(verify=newer) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(toy.client.base_url)


def _issue(name: str, issuer: tuple[rsa.RSAPrivateKey, x509.Name] | None) -> tuple[rsa.RSAPrivateKey, bytes]:
    """An authority (no ``issuer``) or a client certificate of one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = CLOCK.now()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[1] if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
    )
    certificate = builder.sign(issuer[0] if issuer else key, hashes.SHA256())
    return key, certificate.public_bytes(serialization.Encoding.PEM)


@pytest.mark.anyio
async def test_client_certificates(serve: Serve, tmp_path: Path) -> None:
    folder = Paths(tmp_path).ssl
    folder.mkdir(parents=True)
    authority, authority_pem = _issue("authority", None)
    (folder / "ca.crt").write_bytes(authority_pem)
    name = x509.load_pem_x509_certificate(authority_pem).subject
    key, client_pem = _issue("client", (authority, name))
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "client.pem").write_bytes(encoded + client_pem)
    async with serve(api_config(https=Https(use_ca=True))) as toy:
        with pytest.raises(httpx.TransportError):
            await toy.client.get("/nothing")
        known = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        known.check_hostname, known.verify_mode = False, ssl.CERT_NONE
        known.load_cert_chain(tmp_path / "client.pem")
        async with httpx.AsyncClient(verify=known) as client:
            assert (await client.get(f"{toy.client.base_url}/nothing")).status_code == 404


@pytest.mark.anyio
async def test_plain_clients_of_a_tls_port_are_dropped(serve: Serve) -> None:
    async with serve(api_config(https=Https())) as toy, httpx.AsyncClient() as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://127.0.0.1:{toy.server.port}/")
        assert (await toy.client.get("/nothing")).status_code == 404


@pytest.mark.anyio
async def test_obsolete_versions_are_warned_of_in_the_log(serve: Serve) -> None:
    config = parse_api_config("https: {enabled: no, ssl_protocol: TLSv1}\nhost: 127.0.0.1")
    async with serve(api_config(warnings=config.warnings)) as toy:
        assert "WARNING: " in toy.log()
        assert "TLSv1 is obsolete" in toy.log()
