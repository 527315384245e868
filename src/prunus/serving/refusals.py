"""What a client is told when a request is not answered: a status and one sentence."""

from __future__ import annotations

from http import HTTPStatus

RETRY_SECONDS = 1


class Refusal(Exception):  # noqa: N818  # nothing failed: a request is turned down
    """A request that is turned down; `hang_up` closes the connection, whose rest nobody will read."""

    def __init__(self, status: int, message: str, hang_up: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers: dict[str, str] = {}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.headers["Retry-After"] = str(RETRY_SECONDS)
        if hang_up:
            self.headers["Connection"] = "close"


def overloaded(what: str) -> Refusal:
    """Turn a request down because there are too many."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"the service is busy: {what}; try again in a moment")
