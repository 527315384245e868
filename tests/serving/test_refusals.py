"""A refusal is one visible sentence, whatever the uploaded file is called."""

from prunus.serving.refusals import RETRY_SECONDS, Refusal, overloaded


def test_a_name_in_a_refusal_is_shown() -> None:
    assert Refusal(422, "cannot read \x1b[31m\u202e.png").message == r"cannot read \x1b[31m\u202e.png"


def test_a_busy_service_says_when_to_come_back() -> None:
    refusal = overloaded("16 requests are waiting", hang_up=True)
    assert refusal.status == 503
    assert refusal.headers == {"Retry-After": str(RETRY_SECONDS), "Connection": "close"}
    assert refusal.message == "the service is busy: 16 requests are waiting; try again in a moment"
