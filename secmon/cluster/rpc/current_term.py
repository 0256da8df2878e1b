"""Nodes tell each other who is master, where a store of record decides it: for those that do not see the store."""

from pathlib import Path

from grpc import aio

from secmon.cluster.leadership.role_file import read_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.rpc.certificates import NodeCredentials, identity_of, node_target
from secmon.cluster.rpc.credentials import channel_credentials, open_channel
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.shown_certificate import shown_certificate

_Context = aio.ServicerContext[pb.TermRequest, pb.TermReply]


class CurrentTermService(pb_grpc.TermsServicer):
    """Answers nodes with a certificate of the cluster; the port admits no others."""

    def __init__(self, role: Path) -> None:
        self._role = role

    def add_to(self, server: aio.Server) -> None:
        pb_grpc.add_TermsServicer_to_server(self, server)

    async def CurrentTerm(self, request: pb.TermRequest, context: _Context) -> pb.TermReply:
        term = read_role(self._role).term
        if term is None:
            return pb.TermReply()
        return pb.TermReply(number=term.number, holder=term.holder, address=term.address, port=term.port)


async def ask_term(host: str, port: int, credentials: NodeCredentials, *, seconds: float) -> Term:
    """The term that the node at ``host`` knows, without its id; number 0: none.

    Raises OSError, TimeoutError, SecmonError 3042, and AioRpcError (also of a node of an earlier version).
    """
    name = identity_of(await shown_certificate(host, port, seconds=seconds)).name
    channel = open_channel(host, port, channel_credentials(credentials), node_target(name))
    try:
        reply = await pb_grpc.TermsStub(channel).CurrentTerm(pb.TermRequest(), timeout=seconds)
    finally:
        await channel.close(None)
    return Term(reply.number, "", reply.holder, reply.address, reply.port)
