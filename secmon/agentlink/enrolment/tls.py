"""TLS of the enrolment service: its certificate, its context, and who may connect (agent-link.md 1.2)."""

import ipaddress
import logging
import socket
import ssl
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from secmon.common.clock import Clock
from secmon.common.errors import TlsError
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.common.self_signed import expires_within, self_signed
from secmon.config.auth import AuthSettings

log = logging.getLogger("secmon.authd")

VALID_DAYS = 3650
"""Agents that verify the manager's certificate have a copy of it: it must not change often."""
RENEW_DAYS = 60


def ensure_certificate(paths: Paths, settings: AuthSettings, clock: Clock) -> None:
    """Make key and certificate when both are missing, or when our own certificate ends soon. Raises 2003."""
    key, certificate = paths.root / settings.ssl_manager_key, paths.root / settings.ssl_manager_cert
    try:
        if key.exists() or certificate.exists():
            if not _due(certificate, clock):
                return
            log.warning("the certificate %s ends within %d days and is replaced", certificate, RENEW_DAYS)
        key_pem, certificate_pem = self_signed(socket.gethostname(), clock, days=VALID_DAYS)
        write_file(key, key_pem, mode=0o640)
        write_file(certificate, certificate_pem, mode=0o640)
    except OSError as error:
        raise TlsError(f"{error.filename or key}: {error.strerror}") from error


def _due(certificate: Path, clock: Clock) -> bool:
    try:
        return expires_within(certificate.read_bytes(), clock, RENEW_DAYS)
    except (ValueError, FileNotFoundError):
        return False  # loading it raises an error with the reason


def server_context(paths: Paths, settings: AuthSettings) -> ssl.SSLContext:
    """The context of the settings. Raises 2003, which names the setting or the file at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # agents never resume a session
    ciphers = settings.ciphers
    if settings.ssl_auto_negotiate:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the operator has chosen it
            context.minimum_version = ssl.TLSVersion.TLSv1
        ciphers += ":@SECLEVEL=0"  # OpenSSL counts the signatures of the old versions as level 0
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"auth.ciphers: {settings.ciphers!r}: {error.args[-1]}") from error
    key, certificate = paths.root / settings.ssl_manager_key, paths.root / settings.ssl_manager_cert
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise TlsError(f"{certificate}, {key}: {_unusable(error)}") from error
    except OSError as error:
        raise TlsError(f"{certificate}, {key}: {error.strerror or error}") from error
    if settings.ssl_agent_ca:
        _require_agents_certificates(context, paths.root / settings.ssl_agent_ca)
    return context


def _unusable(error: ssl.SSLError) -> str:
    what = "they are no pair" if error.reason == "KEY_VALUES_MISMATCH" else "no readable certificate with its key"
    return f"{what}; put back a copy, or remove both to have new ones made at the next start"


def _require_agents_certificates(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except (ssl.SSLError, OSError) as error:
        raise TlsError(f"auth.ssl_agent_ca: {authority}: {error.strerror or error}") from error
    context.verify_mode = ssl.CERT_REQUIRED


def names_match(certificate: Mapping[str, Any], address: str) -> bool:
    """Whether a peer's certificate (from ``SSLObject.getpeercert``) names the source ``address``.

    Compared are alternative names, DNS then IP, then the common name; one match is enough.
    """
    alternatives: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())
    hosts = [value for kind, value in alternatives if kind == "DNS"]
    addresses = [value for kind, value in alternatives if kind == "IP Address"]
    common = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    return any(_same_name(value, address) for value in (*hosts, *common)) or any(
        _same_address(value, address) for value in addresses
    )


def _same_name(pattern: str, name: str) -> bool:
    """Compare label by label without case; ``*`` matches the first label only."""
    wanted, given = pattern.lower().split("."), name.lower().split(".")
    if len(wanted) != len(given):
        return False
    return (wanted[0] == "*" or wanted[0] == given[0]) and wanted[1:] == given[1:]


def _same_address(written: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(written) == ipaddress.ip_address(address)
    except ValueError:
        return False
