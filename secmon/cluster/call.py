"""A call: one operation of the catalogue with its parameters, asked for by one identity."""

import os
from typing import Any

import msgspec

from secmon.cluster.catalogue import Operation
from secmon.cluster.parameters import ParameterError
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity


class Call(msgspec.Struct, kw_only=True, frozen=True):
    """One operation asked for by one identity: resolved where it enters a process, then passed on as it is.

    ``params`` is an instance of the operation's struct. ``deadline`` is a reading of this host's monotonic clock in
    seconds; between processes the remaining time travels. ``None`` means no limit. ``token`` is
    the client's: a worker sends it to the master, which believes nothing else about the caller; no other node gets it.
    ``node`` is the worker that forwarded the call, by its certificate; empty where the call began on this node.
    ``text``: the items of the result may be JSON text (``Outcome.text``).
    """

    operation: Operation
    params: Any
    identity: Identity
    request_id: str
    deadline: float | None = None
    client: str = ""
    token: str = ""
    node: str = ""
    text: bool = False

    def __repr__(self) -> str:
        return f"Call({self.operation.name!r}, {self.title})"

    @property
    def title(self) -> str:
        """How logs name it."""
        nodes = [f"from node {self.node}"] if self.node else []
        nodes += [f"token issued by node {self.identity.issuer}"] if self.identity.issuer else []
        return f"request {self.request_id}" + (f" ({', '.join(nodes)})" if nodes else "")


def parameters_of(operation: Operation, values: dict[str, Any], node: str) -> Any:
    """The operation's parameters out of ``values``, which ``node`` has put together. Raises SecmonError 1000."""
    try:
        return operation.build(values)
    except ParameterError as error:
        raise refused_parameters(error, node) from None


def refused_parameters(error: Exception, node: str) -> SecmonError:
    """The error for parameters from a daemon or node that are not the operation's, found by ``node``."""
    failure = SecmonError(1000, f"parameters refused by node {node}: {error}")
    failure.nodes = {node: failure.message}
    return failure


def new_request_id() -> str:
    """The id by which the logs of all nodes name a request."""
    return os.urandom(16).hex()
