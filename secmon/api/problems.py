"""Problem documents: the bodies of all errors (conventions.md 2)."""

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from secmon.api.responses import ApiResponse, Header
from secmon.common.errors import SecmonError

PROBLEM_TYPE = b"application/problem+json; charset=utf-8"

NodeErrors = Mapping[str, Mapping[str, str]]


_PATTERN = re.compile(r"matching regex '.*'(?= - at |\Z)")


class RequestRefused(Exception):
    """A request that gets no further than the adapter; ``title`` is the phrase of ``status`` unless given."""

    def __init__(self, status: int, detail: str, *, title: str | None = None, close: bool = False) -> None:
        self.status, self.detail, self.close = status, detail, close
        self.title = title or _PHRASES.get(status) or HTTPStatus(status).phrase
        super().__init__(f"{status}: {detail}")


# http.HTTPStatus words 413 in another way.
_PHRASES = {413: "Request Entity Too Large"}


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    remediation: str | None = None,
    dapi_errors: NodeErrors | None = None,
    code: int | None = None,
    headers: Sequence[Header] = (),
) -> ApiResponse:
    """The document; its members in the documented order, empty ones left out, a newline at its end."""
    members = {
        "title": title,
        "detail": detail,
        "remediation": remediation,
        "dapi_errors": dapi_errors,
        "error": code,
    }
    body = json.dumps({name: value for name, value in members.items() if value}) + "\n"
    return ApiResponse(status, body.encode("ascii"), PROBLEM_TYPE, headers)


def error_problem(error: SecmonError, dapi_errors: NodeErrors | None = None) -> ApiResponse:
    """The document of a catalogued error."""
    return problem(
        error.kind.status,
        error.kind.title,
        error.message,
        remediation=error.remediation,
        dapi_errors=dapi_errors,
        code=error.code,
    )


def flat(text: str) -> str:
    """The text of a validator on one line: blank lines end a sentence, white space collapses.

    Patterns, which the validator shows escaped twice, are left to the API description.
    """
    text = _PATTERN.sub("in the form that the API description gives", text)
    sentences = re.sub(r"\n\n+", ". ", text).replace("\n", "")
    return re.sub(r"\s+", " ", sentences).strip()
