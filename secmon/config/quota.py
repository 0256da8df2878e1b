"""The hourly quota of a key of the threat-intelligence service, as the service reports it."""

import http.client
import urllib.error
import urllib.request
from typing import IO
from urllib.parse import quote

import msgspec

from secmon.common.errors import SecmonError

SERVICE = "https://www.virustotal.com"
TIMEOUT_SECONDS = 5.0
MAX_ANSWER = 1 << 20


class _User(msgspec.Struct):
    allowed: int


class _Hourly(msgspec.Struct):
    user: _User


class _Data(msgspec.Struct):
    api_requests_hourly: _Hourly


class _Answer(msgspec.Struct):
    data: _Data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key must not be sent to wherever an answer points."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:  # fmt: skip
        return None


def hourly_quota(api_key: str, *, service: str = SERVICE, timeout: float = TIMEOUT_SECONDS) -> int:
    """Requests that the key may make within an hour. Blocks, each step ``timeout`` seconds at most.

    Raises 1131 when the service does not answer, for any reason: then the key may be public. The
    error never holds the key.
    """
    url = f"{service}/api/v3/users/{quote(api_key, safe='')}/overall_quotas"
    try:
        request = urllib.request.Request(url, headers={"x-apikey": api_key, "Accept": "application/json"})
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout) as response:
            answer = msgspec.json.decode(response.read(MAX_ANSWER), type=_Answer)
    except urllib.error.HTTPError as error:
        with error:
            raise SecmonError(1131, f"HTTP status {error.code}") from None
    except OSError as error:
        raise SecmonError(1131, type(error).__name__) from None
    except (http.client.HTTPException, ValueError, msgspec.MsgspecError) as error:
        raise SecmonError(1131, f"unexpected answer ({type(error).__name__})") from None
    return answer.data.api_requests_hourly.user.allowed
