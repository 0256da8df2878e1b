"""An agent that asks for a key."""

import asyncio
import ssl


async def enrol(port: int, request: str, *, address: str = "127.0.0.1") -> str:
    """The reply to one request, both lines of a refusal in one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(address, port, ssl=context)
    writer.write(f"{request}\n".encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def key_of(reply: str) -> tuple[str, str, str, str]:
    """Id, name, address and key of a reply that grants them."""
    assert reply.startswith("OSSEC K:'"), reply
    agent, name, address, key = reply[9:-1].split(" ")
    return agent, name, address, key
