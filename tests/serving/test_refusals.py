"""A refusal says when to try again, and closes the connection only where the rest of a request is not read."""

from http import HTTPStatus

import pytest

from prunus.serving.refusals import Refusal, overloaded


def test_an_overloaded_service_keeps_the_connection_unless_told() -> None:
    refusal = overloaded("9 requests are waiting")
    assert refusal.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert refusal.message == "the service is busy: 9 requests are waiting; try again in a moment"
    assert refusal.headers == {"Retry-After": "1"}
    assert overloaded("", hang_up=True).headers == {"Retry-After": "1", "Connection": "close"}


@pytest.mark.parametrize(
    ("status", "retries"),
    [
        (HTTPStatus.TOO_MANY_REQUESTS, True),
        (HTTPStatus.SERVICE_UNAVAILABLE, True),
        (HTTPStatus.REQUEST_TIMEOUT, False),
        (HTTPStatus.UNPROCESSABLE_ENTITY, False),
    ],
)
def test_only_what_may_work_later_may_be_tried_again(status: HTTPStatus, retries: bool) -> None:
    assert Refusal(status, "no").headers == ({"Retry-After": "1"} if retries else {})
    assert Refusal(status, "no", hang_up=True).headers["Connection"] == "close"
