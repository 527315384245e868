"""Messages between the service and its decoders arrive whole, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from prunus.serving.uploads.messages import Answer, FrameBuffer, Task, frame
from tests.makers.upload_bodies import task


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 60))
def test_messages_arrive_in_order_in_whatever_pieces(contents: list[bytes], piece: int) -> None:
    answers = [Answer(names=[str(number)]) for number in range(len(contents))]
    stream = b"".join(frame(answer, len(raw)) + raw for answer, raw in zip(answers, contents, strict=True))
    buffer, found = FrameBuffer(), []
    for start in range(0, len(stream), piece):
        buffer.feed(stream[start : start + piece])
        while (message := buffer.next_message()) is not None:
            found.append(message)
    assert [raw for _, raw in found] == contents
    assert [Answer.model_validate_json(header) for header, _ in found] == answers


def test_a_task_is_read_back_as_it_was() -> None:
    sent = task(max_cost=0.25)
    assert Task.model_validate_json(frame(sent, 0)[8:]) == sent


def test_what_a_decoder_claims_is_checked() -> None:
    for text in (b"{", b'{"status": "200"}', b'{"names": [1]}', b'{"more": 1}'):
        with pytest.raises(ValidationError):
            Answer.model_validate_json(text)
