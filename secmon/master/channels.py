"""A warm channel to the Peer service of each connected worker."""

import asyncio
from dataclasses import dataclass

from grpc import aio

from secmon.cluster.rpc.certificates import node_target
from secmon.cluster.rpc.credentials import channel_credentials, open_channel
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.keystore import Keystore
from secmon.master.worker_session import WorkerSession

_OLD_CHANNEL_SECONDS = 300.0  # for calls that run when the certificate is renewed
_NOW = "close channel"


@dataclass
class _Open:
    session: WorkerSession
    channel: aio.Channel


class PeerChannels:
    """One channel per session; a ``SessionListener``. The worker must show the certificate of its own name."""

    def __init__(self, keystore: Keystore) -> None:
        self._keystore = keystore
        self._open: dict[str, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def channel(self, name: str) -> aio.Channel | None:
        """The channel to the connected worker ``name``."""
        found = self._open.get(name)
        return found.channel if found else None

    def joined(self, session: WorkerSession) -> None:
        self._open[session.name] = _Open(session, self._connect(session))

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        """Nothing of interest."""

    def left(self, session: WorkerSession) -> None:
        """Calls that still run there fail now rather than at their deadline."""
        found = self._open.get(session.name)
        if found and found.session is session:
            del self._open[session.name]
            self._close(found.channel, None)

    def refresh(self) -> None:
        """Show the renewed certificate; running calls end on the channel they began on."""
        for entry in self._open.values():
            self._close(entry.channel, _OLD_CHANNEL_SECONDS)
            entry.channel = self._connect(entry.session)

    async def close(self) -> None:
        """Close everything at once."""
        for entry in self._open.values():
            self._close(entry.channel, None)
        self._open.clear()
        for task in self._closing:
            if task.get_name() != _NOW:
                task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _connect(self, session: WorkerSession) -> aio.Channel:
        credentials = self._keystore.current
        assert credentials is not None, "the master has credentials before workers join"
        channel = open_channel(
            session.address, session.peer_port, channel_credentials(credentials), node_target(session.name)
        )
        channel.get_state(try_to_connect=True)
        return channel

    def _close(self, channel: aio.Channel, grace: float | None) -> None:
        task = asyncio.create_task(channel.close(grace), name=_NOW if grace is None else None)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
