"""gRPC over TLS as all nodes use it: servers, channels, and who is at the other end."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
from cryptography import x509

from secmon.cluster.rpc import certificates, flow_control
from secmon.cluster.rpc.certificates import NodeCredentials, PeerIdentity, identity_of
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.request_budget import MAX_REQUEST_BYTES, RequestBudget
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of a message that a node sends, and of an answer that it receives; for requests see ``request_budget``."""
HANDSHAKE_SECONDS = 20.0
"""Time for a connection with its TLS session and the client's certificate, on both sides: about four round trips, and
what is lost of them is sent again."""

_COMMON: list[tuple[str, Any]] = [
    *flow_control.OPTIONS,
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),  # the bound of what is sent and not acknowledged, too (TCP_USER_TIMEOUT)
    ("grpc.keepalive_permit_without_calls", 1),
]
_SERVER: list[tuple[str, Any]] = [
    *_COMMON,
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
]


PEER_PREFIX = "secmon-peer/"
"""Of the abstract socket names that relayed connections have: then process, number and the client's address."""


def new_server(
    *,
    max_message_bytes: int = MAX_REQUEST_BYTES,
    calls_per_connection: int | None = None,
    request_bytes: Mapping[str, int] | None = None,
) -> grpc.aio.Server:
    """A server with the house's options; ``calls_per_connection`` at a time, ``request_bytes``: see RequestBudget."""
    options = [*_SERVER, ("grpc.max_receive_message_length", max_message_bytes)]
    if calls_per_connection is not None:
        options.append(("grpc.max_concurrent_streams", calls_per_connection))
    return grpc.aio.server(options=options, interceptors=[RequestBudget(request_bytes or {}, max_message_bytes)])


def server_credentials(keystore: Keystore, clock: Clock, *, clients: bool) -> grpc.ServerCredentials:
    """Credentials that follow the keystore from handshake to handshake; ``clients`` demands certificates of them.

    Before the node has any, a certificate that no node trusts is used, so that the port is open and refuses everyone.
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
        ("grpc.min_reconnect_backoff_ms", int(HANDSHAKE_SECONDS * 1000)),  # which is also what a connection may take
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
    """The address in gRPC's name of a relayed peer (see ``relay``); other kinds of names stay as they are."""
    kind, _, rest = peer.partition(":")
    if kind != "unix-abstract" or not rest.startswith(PEER_PREFIX):
        return peer
    return unquote(rest.removeprefix(PEER_PREFIX)).split("/", 2)[-1]
