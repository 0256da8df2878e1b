"""The certificate that a port shows, before anything is known of the node behind it."""

import asyncio
import ssl


async def shown_certificate(host: str, port: int, *, seconds: float) -> bytes:
    """PEM. It is not verified here: what follows must be bound to it. Raises OSError, TimeoutError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        session: ssl.SSLObject = writer.get_extra_info("ssl_object")
        shown = session.getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    if not shown:
        raise ConnectionError("it shows no certificate")
    return ssl.DER_cert_to_PEM_cert(shown).encode()
