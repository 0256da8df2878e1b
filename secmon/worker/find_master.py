"""A worker without the URL of the store of record finds the master: it asks the nodes that may be it.

Any node answers with the current term; the highest number counts. What was learned is kept in the role file, so that
a master of an earlier term is refused after a restart, too.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from grpc import aio

from secmon.cluster.leadership.role_file import CurrentRole, read_role, write_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.rpc.certificates import NodeCredentials
from secmon.cluster.rpc.current_term import ask_term
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.clusterd.link")

ASK_SECONDS = 3.0


class MasterSearch:
    """``settings`` are those of the node; its ``addresses`` are asked."""

    def __init__(self, settings: LinkSettings, keystore: Keystore, role: Path) -> None:
        self._settings, self._keystore, self._role = settings, keystore, role
        self._turn = 0

    async def find(self) -> LinkSettings:
        """The settings for the next attempt to join.

        The addresses take turns while no node says who is master: none is reached, or this node has no certificate yet.
        """
        addresses, credentials = self._settings.addresses, self._keystore.current
        asked = (self._ask(address, credentials) for address in addresses) if credentials else ()
        found = [term for term in await asyncio.gather(*asked) if term is not None]
        latest = max(found, key=lambda term: term.number, default=None)
        if latest is not None and latest.number == 0:  # no store of record: the first node counts
            return self._settings
        known = read_role(self._role).term
        if latest is not None and latest.address and (known is None or latest.number >= known.number):
            return self._settings.at(latest.address, latest.port)
        self._turn += 1
        return replace(self._settings, master=addresses[(self._turn - 1) % len(addresses)])

    async def joined(self, master: pb.NodeHello, at: LinkSettings) -> None:
        """Keep the term of the master that this node has joined."""
        if not master.term:
            return
        term = Term(master.term, "", master.node_name, at.master, at.port)
        if read_role(self._role).term != term:
            log.info("term %d: %s at %s is the master", term.number, term.holder, term.address)
            try:
                await asyncio.to_thread(write_role, self._role, CurrentRole("worker", term, "it was joined"))
            except OSError as error:
                log.error("the term is not kept, a restart forgets it: %s", error)

    async def _ask(self, address: str, credentials: NodeCredentials) -> Term | None:
        try:
            return await ask_term(address, self._settings.port, credentials, seconds=ASK_SECONDS)
        except (OSError, TimeoutError, SecmonError, aio.AioRpcError) as error:
            log.debug("%s does not say who is master: %s", address, error)
            return None
