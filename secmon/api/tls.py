"""HTTPS: the certificate of a first start, and the context that the settings ask for (conventions.md 10.3)."""

import os
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509

from secmon.common.clock import Clock
from secmon.common.errors import TlsError
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.common.privileges import read_protected
from secmon.common.self_signed import self_signed
from secmon.config.api import Https

_EXACT = {"TLSv1": ssl.TLSVersion.TLSv1, "TLSv1.1": ssl.TLSVersion.TLSv1_1, "TLSv1.2": ssl.TLSVersion.TLSv1_2}


def ensure_certificate(paths: Paths, settings: Https, clock: Clock) -> bool:
    """Generate key and certificate when either file is missing; whether that was done.

    Raises 2003 when the files cannot be written.
    """
    key, cert = paths.ssl / settings.key, paths.ssl / settings.cert
    if key.exists() and cert.exists():
        return False
    key_pem, cert_pem = self_signed(socket.gethostname(), clock)
    try:
        paths.ssl.mkdir(mode=0o770, parents=True, exist_ok=True)
        write_file(key, key_pem, mode=0o400)
        write_file(cert, cert_pem, mode=0o400)
    except OSError as error:
        raise _failure(Path(error.filename or key), error.strerror or str(error)) from error
    return True


def server_context(paths: Paths, settings: Https, key_password: str | None = None) -> ssl.SSLContext:
    """The context of the HTTPS server. ``key_password`` opens a key that has a pass phrase.

    Raises 2003, which names the file and what is wrong, for anything that does not fit.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _set_version(context, settings.ssl_protocol)
    if settings.ssl_ciphers:
        try:
            context.set_ciphers(settings.ssl_ciphers.upper())
        except ssl.SSLError as error:
            raise TlsError(f"https.ssl_ciphers: {settings.ssl_ciphers!r}: {error.args[-1]}") from error
    _load_key(context, paths, settings, key_password)
    if settings.use_ca:
        _require_clients(context, paths.ssl / settings.ca)
    return context


def _set_version(context: ssl.SSLContext, name: str) -> None:
    exact = next((version for word, version in _EXACT.items() if word.lower() == name.lower()), None)
    if exact is None:  # auto, TLS: the best that both sides know, and nothing obsolete
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the configuration has warned in our own words
        context.minimum_version = context.maximum_version = exact
    if exact < ssl.TLSVersion.TLSv1_2:
        # OpenSSL counts the ciphers and signatures of these versions as level 0.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")


def _load_key(context: ssl.SSLContext, paths: Paths, settings: Https, password: str | None) -> None:
    """OpenSSL reads files only: what was read goes through memory, since the key may be root's."""
    cert, key = paths.ssl / settings.cert, paths.ssl / settings.key
    with _in_memory(paths, cert) as cert_file, _in_memory(paths, key) as key_file:
        try:
            # Without a password OpenSSL would ask on the terminal; an empty one fails instead.
            context.load_cert_chain(cert_file, key_file, password=password or "")
        except ssl.SSLError as error:
            if not _is_certificate(Path(cert_file).read_bytes()):
                raise _failure(cert, f"it is damaged: no readable certificate; {_remedy(settings)}") from error
            raise _failure(key, f"{_reason(error, password)}; {_remedy(settings)}") from error


def _is_certificate(data: bytes) -> bool:
    try:
        x509.load_pem_x509_certificates(data)
    except ValueError:
        return False
    return True


def _remedy(settings: Https) -> str:
    return f"put back a copy, or remove {settings.key} and {settings.cert} to have new ones made at the next start"


@contextmanager
def _in_memory(paths: Paths, file: Path) -> Iterator[str]:
    """Path of a copy of ``file`` that only this process has. Raises 2003."""
    try:
        data = read_protected(paths.root, file)
    except OSError as error:
        raise _failure(file, (error.strerror or str(error)).lower()) from error
    with os.fdopen(os.memfd_create(file.name), "wb") as copy:
        copy.write(data)
        copy.flush()
        yield f"/proc/self/fd/{copy.fileno()}"


def _reason(error: ssl.SSLError, password: str | None) -> str:
    reason = getattr(error, "reason", None)  # absent on errors that OpenSSL did not number
    if reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if reason in ("PEM_LIB", None, "BAD_DECRYPT", "NO_START_LINE"):
        return "no readable key or certificate" if password is None else "not readable, or the pass phrase is wrong"
    return str(reason).lower().replace("_", " ")


def _require_clients(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except ssl.SSLError as error:
        raise _failure(authority, "not a PEM certificate") from error
    except OSError as error:
        raise _failure(authority, error.strerror or str(error)) from error
    context.verify_mode = ssl.CERT_REQUIRED


def _failure(file: Path, cause: str) -> TlsError:
    return TlsError(f"{file}: {cause}")
