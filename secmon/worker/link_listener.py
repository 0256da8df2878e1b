"""Followers of a worker's link: replication plugs in here."""

from typing import Protocol

from grpc import aio

from secmon.cluster.rpc.gen import secmon_pb2 as pb


class Link(Protocol):
    """The link to the master, as replication and reports use it."""

    @property
    def channel(self) -> aio.Channel | None:
        """The channel to the master; None without a session."""

    def send(self, message: pb.WorkerMessage) -> None:
        """Queue ``message`` for the master, in order. Raises SecmonError 3023 without a session."""

    def heard(self) -> None:
        """Data has come from the master: a sign of life, as a heartbeat behind it may be late."""


class LinkListener(Protocol):
    """Is called about the link, one call at a time. Heartbeats continue during a call; other messages wait.

    An exception of ``connected`` or ``received`` ends the session, and a new one begins. The end of a session cancels
    them.
    """

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        """A session has begun; called before its first message."""

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        """The master sent ``message``."""

    async def disconnected(self, reason: str) -> None:
        """The session has ended. Must not raise."""
