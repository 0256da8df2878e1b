"""HTTP towards receivers: one bounded request at a time, and what its answer means."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple

import httpx

from secmon import __version__
from secmon.outputs.output import Undelivered

MAX_ANSWER = 16 << 20
_PERMANENT = frozenset({400, 413, 415, 422})
"""The request itself is at fault: another try has the same answer."""
_SHOWN = 200


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: bytes

    @property
    def refused(self) -> bool:
        """Whether what was sent is refused for good."""
        return self.status in _PERMANENT

    def excerpt(self) -> str:
        """The beginning of the body for a log."""
        return self.body[:_SHOWN].decode("utf-8", "replace").replace("\n", " ")


class HttpClient:
    """Requests to one receiver over connections that are kept."""

    def __init__(self, *, seconds: float, trust: ssl.SSLContext, login: tuple[str, str] | None = None) -> None:
        """``seconds`` for a whole request; ``login``: name and password."""
        self._seconds = seconds
        self._client = httpx.AsyncClient(
            verify=trust,
            auth=login,
            timeout=httpx.Timeout(seconds),
            headers={"User-Agent": f"secmon/{__version__}"},
            follow_redirects=False,
        )

    async def request(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A success, or a refusal for good. Raises Undelivered for all other answers, and without one."""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._exchange(method, url, body, headers or {})
        except TimeoutError:
            raise Undelivered(f"no answer within {self._seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise Undelivered(_reason(error)) from None
        if 200 <= answer.status < 300 or answer.refused:
            return answer
        raise Undelivered(f"it answers with status {answer.status}: {answer.excerpt()}")

    async def close(self) -> None:
        await self._client.aclose()

    async def _exchange(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        async with self._client.stream(method, url, content=body, headers=headers) as response:
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_ANSWER:
                    raise Undelivered(f"its answer is longer than {MAX_ANSWER} bytes")
            return Answer(response.status_code, bytes(content))


def _reason(error: Exception) -> str:
    """Without the address, which may hold a secret."""
    cause: BaseException = error
    while not str(cause) and (cause.__cause__ or cause.__context__) is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause) or type(error).__name__
