"""How the watch over sources asks the nodes: through the cluster daemon, or the analysis of the only node."""

from collections.abc import Mapping

import msgspec

from secmon.agents.sources.reports import SourceQuestion, SourceReport
from secmon.agents.sources.source_watch import Gather
from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.daemons.master_client import MasterClient


def gather_sources(node: Node, master: MasterClient) -> Gather:
    """For the watch of ``node``, the master or a node without a cluster."""

    async def of_all(asked: Mapping[str, SourceQuestion], *, others: bool) -> Mapping[str, SourceReport]:
        answer = await master.call("PUT /internal/sources", {"asked": dict(asked), "others": others})
        try:
            return msgspec.convert(answer, dict[str, SourceReport])
        except msgspec.ValidationError as error:
            raise SecmonError(3036, f"sources: {error}") from error

    async def of_this_one(asked: Mapping[str, SourceQuestion], *, others: bool) -> Mapping[str, SourceReport]:
        analysis = node.services.analysis
        assert analysis is not None, "every node has one"
        return {node.name: await analysis.sources(asked.get(node.name, SourceQuestion()))}

    return of_all if node.clustered else of_this_one
