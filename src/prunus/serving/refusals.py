"""Error responses: a status and one sentence."""

from http import HTTPStatus

from prunus.names import shown

RETRY_SECONDS = 1


class Refusal(Exception):  # noqa: N818  # not a failure of the service
    """A request that is refused; `hang_up` also closes the connection, because its rest is not read.

    It is sent after `delay` seconds.
    """

    def __init__(self, status: int, message: str, hang_up: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = shown(message)  # it may name an uploaded file, and clients print it
        self.delay = 0.0
        self.headers: dict[str, str] = {}
        if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            self.headers["Retry-After"] = str(RETRY_SECONDS)
        if hang_up:
            self.headers["Connection"] = "close"


def overloaded(what: str, hang_up: bool = False) -> Refusal:
    """Return the refusal of a service that is overloaded."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"the service is busy: {what}; try again in a moment", hang_up)
