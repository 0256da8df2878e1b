"""gRPC over TLS as all nodes use it: servers, channels, and who is at the other end."""

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
from cryptography import x509

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.rpc import certificates
from secmon.common.rpc.certificates import NodeCredentials, PeerIdentity, identity_of
from secmon.common.rpc.keystore import Keystore

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of any message between nodes that know each other: an upload travels whole, everything else large is streamed."""

_COMMON: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
]
_SERVER: list[tuple[str, Any]] = [
    *_COMMON,
    ("grpc.so_reuseport", 0),  # a port that is taken must be an error
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
]


def new_server(
    *, max_message_bytes: int = MAX_MESSAGE_BYTES, max_calls: int | None = None, max_connection_ms: int | None = None
) -> grpc.aio.Server:
    """A server with the house's options; ``max_calls`` at a time, connections of ``max_connection_ms`` at most."""
    options = [*_SERVER, ("grpc.max_receive_message_length", max_message_bytes)]
    if max_connection_ms is not None:
        options += [("grpc.max_connection_age_ms", max_connection_ms), ("grpc.max_connection_age_grace_ms", 5_000)]
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=max_calls)


def listen(server: grpc.aio.Server, host: str, port: int, credentials: grpc.ServerCredentials, *, setting: str) -> int:
    """Bind ``server``; the port taken. Raises 2010 with ``setting``, option and file, when that is not possible."""
    try:
        return server.add_secure_port(endpoint(host, port), credentials)
    except RuntimeError:
        raise SecmonError(2010, f"{host}, port {port}: {_obstacle(host, port)}; change {setting}") from None


def _obstacle(host: str, port: int) -> str:
    """What the kernel says, which gRPC keeps to itself."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return "it was in use a moment ago"
    except OSError as error:
        return str(error) if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)


def server_credentials(keystore: Keystore, clock: Clock, *, clients: bool) -> grpc.ServerCredentials:
    """Credentials that follow the keystore from handshake to handshake; ``clients`` demands certificates of them.

    Before the node has any, a certificate that nobody trusts stands in: the port is taken, and nobody gets in.
    """
    used = keystore.current or _throwaway(keystore.identity, clock)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        if keystore.current is None or keystore.current == used:
            return None
        used = keystore.current
        return _configuration(used)

    # grpc-stubs do not say that the fetcher may answer "unchanged".
    fetcher: Callable[[], Any] = changed
    return grpc.dynamic_ssl_server_credentials(_configuration(used), fetcher, clients)


def _configuration(credentials: NodeCredentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credentials.key, credentials.certificate)], credentials.authority
    )


def _throwaway(identity: PeerIdentity, clock: Clock) -> NodeCredentials:
    """Signed by an authority whose key is dropped here."""
    key = certificates.new_key()
    authority_key, authority = certificates.new_authority("none yet", clock.now())
    certificate = certificates.sign_node(
        x509.load_pem_x509_certificate(authority),
        certificates.load_key(authority_key),
        key.public_key(),
        identity,
        clock.now(),
        timedelta(days=1),
    )
    return NodeCredentials(certificates.key_pem(key), certificate, authority)


def open_channel(host: str, port: int, credentials: grpc.ChannelCredentials, target: str) -> grpc.aio.Channel:
    """A channel to the node whose certificate carries the name ``target``, wherever it is."""
    options = [
        *_COMMON,
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.ssl_target_name_override", target),
        ("grpc.use_local_subchannel_pool", 1),  # no back-off inherited from an earlier channel
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]
    return grpc.aio.secure_channel(endpoint(host, port), credentials, options=options)


def channel_credentials(credentials: NodeCredentials) -> grpc.ChannelCredentials:
    """Trust the cluster's authority only, show the node's certificate."""
    return grpc.ssl_channel_credentials(credentials.authority, credentials.key, credentials.certificate)


def endpoint(host: str, port: int) -> str:
    """``host:port``, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_identity(context: grpc.aio.ServicerContext[Any, Any]) -> PeerIdentity:
    """Who calls, by the certificate of the TLS session. Raises SecmonError 3042."""
    pem = context.auth_context().get("x509_pem_cert")
    if not pem:
        raise SecmonError(3042, "the caller shows no certificate")
    return identity_of(next(iter(pem)))


def peer_certificate(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
    """The caller's certificate, PEM; empty without one."""
    pem = context.auth_context().get("x509_pem_cert")
    return next(iter(pem)) if pem else b""


def peer_address(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """IP address of the caller."""
    return address_of(context.peer())


def address_of(peer: str) -> str:
    """The address in gRPC's name of a peer, such as ``ipv6:%5B::1%5D:4711``; other kinds of names stay as they are."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return unquote(rest).rpartition(":")[0].strip("[]").removeprefix("::ffff:")
