"""The error of status 401, whose body has title and detail only (conventions.md 2)."""

from typing import Final, Literal

Detail = Literal["No authorization token provided", "Invalid token", "Invalid credentials"]

NO_TOKEN: Final[Detail] = "No authorization token provided"
INVALID_TOKEN: Final[Detail] = "Invalid token"
INVALID_CREDENTIALS: Final[Detail] = "Invalid credentials"


def known_detail(text: str) -> Detail:
    """``text``, which another node sent, if it is a detail of ours; ``Invalid token`` otherwise."""
    return next((one for one in (NO_TOKEN, INVALID_CREDENTIALS) if one == text), INVALID_TOKEN)


class AuthenticationError(Exception):
    """The caller is not authenticated: status 401, title ``Unauthorized``. The exact reason is not disclosed."""

    status = 401
    title = "Unauthorized"

    def __init__(self, detail: Detail) -> None:
        self.detail = detail
        super().__init__(detail)
