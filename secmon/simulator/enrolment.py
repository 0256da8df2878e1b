"""The agent's side of enrolment (agent-link.md 1.4, 1.9)."""

import asyncio
import re
import ssl
from dataclasses import dataclass

from secmon.agents.wire.keys import AgentKey
from secmon.simulator.options import Server

MAX_REPLY = 65536
_KEY = re.compile(r"OSSEC K:'(\d{1,8}) ([A-Za-z0-9._-]{2,128}) (\S{1,64}) (\S+)'")


class EnrolmentRefused(Exception):
    """The server refused; the text is its reply."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """An enrolment request; empty members are not sent."""

    name: str
    password: str = ""
    version: str = ""
    groups: str = ""
    address: str = ""
    key_hash: str = ""

    def encode(self) -> bytes:
        """The request as bytes, in the order that servers expect."""
        tokens = (("V", self.version), ("G", self.groups), ("IP", self.address), ("K", self.key_hash))
        text = f"OSSEC PASS: {self.password} " if self.password else ""
        text += f"OSSEC A:'{self.name}'" + "".join(f" {token}:'{value}'" for token, value in tokens if value)
        return text.encode() + b"\n"


def trusting() -> ssl.SSLContext:
    """The default of agents: encrypt, and verify nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def enrol(
    server: Server, request: Request, tls: ssl.SSLContext, *, source: str = "", timeout: float = 30.0
) -> AgentKey:
    """The key that ``server`` gives.

    Raises EnrolmentRefused, OSError for a connection that fails (TLS included), TimeoutError after ``timeout`` seconds.
    """
    local = (source, 0) if source else None
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            server.host, server.enrolment_port, ssl=tls, local_addr=local, limit=MAX_REPLY
        )
        try:
            writer.write(request.encode())
            reply = (await _until_the_end(reader)).decode("utf-8", "replace")
        finally:
            writer.transport.abort()  # a TLS shutdown could hang on a server that is gone
    found = _KEY.search(reply)
    if found is None:
        raise EnrolmentRefused(reply.strip() or "closed without a reply")
    return AgentKey(found[1], found[2], found[3], found[4])


async def _until_the_end(reader: asyncio.StreamReader) -> bytes:
    """The reply up to its end; many servers close without a TLS shutdown."""
    reply = bytearray()
    try:
        while len(reply) < MAX_REPLY and (part := await reader.read(MAX_REPLY)):
            reply += part
            if _KEY.search(reply.decode("utf-8", "replace")):
                break
    except (ConnectionError, ssl.SSLError):
        if not reply:
            raise
    return bytes(reply)
