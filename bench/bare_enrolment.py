"""The floor of enrolment: TLS with a node's certificate, one line in, one fixed answer out."""

import asyncio
import ssl
import sys
from pathlib import Path

import uvloop

_ANSWER = b"OSSEC K:'001 agent any " + b"0" * 64 + b"'"


async def _serve(etc: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(etc / "sslmanager.cert", etc / "sslmanager.key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            writer.write(_ANSWER)
            await writer.drain()
        except OSError:
            pass  # the agent has its key and has closed the connection
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
