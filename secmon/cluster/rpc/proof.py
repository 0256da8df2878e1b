"""Proofs that a node knows the cluster key, without sending it.

Each proof is HMAC-SHA256 over a purpose and length-prefixed fields, so that no two inputs read the same. What is proved
is bound to the certificate that the prover sees (enrolment) or shows (join), so a proof that a man in the middle
collects is not valid in another TLS session.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterable

from secmon.cluster.rpc.gen import secmon_pb2 as pb


def enrolment(key: bytes, request: pb.EnrolRequest, server_fingerprint: bytes) -> bytes:
    """The worker's proof over its whole request and over the server certificate (SHA-256 of the DER) that it sees."""
    fields = [server_fingerprint, request.csr, request.nonce, request.reason.encode(), *_hello(request.hello)]
    return _proof(key, b"secmon enrolment: worker", fields)


def reply(key: bytes, enrolled: pb.Enrolled, nonce: bytes) -> bytes:
    """The master's proof that certificate and authority come from it, in answer to the request with ``nonce``."""
    return _proof(key, b"secmon enrolment: master", [enrolled.certificate, enrolled.authority, nonce])


def join(key: bytes, hello: pb.NodeHello, own_fingerprint: bytes) -> bytes:
    """The worker's proof at each join, over its own certificate: nodes without the current key are refused."""
    return _proof(key, b"secmon join", [own_fingerprint, *_hello(hello)])


def verify(expected: bytes, given: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(expected, given)


def _hello(hello: pb.NodeHello) -> Iterable[bytes]:
    yield from (text.encode() for text in (hello.node_name, hello.cluster_name, hello.version, hello.installation_id))
    yield struct.pack(">IIId", hello.protocol, hello.min_protocol, hello.peer_port, hello.clock)
    if hello.term or hello.address:  # nodes of earlier versions have neither
        yield struct.pack(">Q", hello.term)
    if hello.address:
        yield hello.address.encode()


def _proof(key: bytes, purpose: bytes, fields: Iterable[bytes]) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (purpose, *fields):
        mac.update(struct.pack(">I", len(part)) + part)
    return mac.digest()
