"""Validation of what a node states about itself when it enrols or joins."""

import re
import uuid

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.config.cluster import NAME, NODE_NAME
from secmon.config.values import HOST, Check
from secmon.master.membership import Candidate, MembershipRules, ineligibility

_VERSION = Check(
    lambda text: re.fullmatch(r"[0-9A-Za-z.+_-]{1,64}", text) is not None,
    "1 to 64 letters, digits, '.', '+', '_' and '-'",
)


def candidate_of(hello: pb.NodeHello, *, ip: str, serial: int, clock: Clock) -> Candidate:
    """The candidate for :mod:`secmon.master.membership`. Raises SecmonError 3004 naming the invalid field."""
    for field, check, value in (
        ("node_name", NODE_NAME, hello.node_name),
        ("name", NAME, hello.cluster_name),
        ("version", _VERSION, hello.version),
    ):
        if not check.test(value):
            raise SecmonError(3004, f"{field}: {value[:64]!r} is not allowed; allowed: {check.allowed}")
    if hello.address and not HOST.test(hello.address):
        raise SecmonError(3004, f"address: {hello.address[:64]!r} is not allowed; allowed: {HOST.allowed}")
    return Candidate(
        serial=serial,
        name=hello.node_name,
        installation_id=_uuid(hello.installation_id),
        cluster_name=hello.cluster_name,
        version=hello.version,
        protocol=hello.protocol,
        min_protocol=hello.min_protocol,
        skew=hello.clock - clock.now().timestamp(),
        ip=ip,
        address=hello.address or ip,
    )


def require_eligible(candidate: Candidate, rules: MembershipRules) -> None:
    """Raise SecmonError with the code of the reason for which ``candidate`` cannot be a member of this cluster."""
    refusal = ineligibility(candidate, rules)
    if refusal:
        raise SecmonError(*refusal)


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise SecmonError(3004, f"installation_id: {text[:64]!r} is not allowed; allowed: a UUID") from None
