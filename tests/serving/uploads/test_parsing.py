"""Parsing a form: its files in order, or the reason why it cannot be read."""

from __future__ import annotations

import pytest

from prunus.serving.refusals import Refusal
from prunus.serving.uploads.parsing import Upload, boundary_of, count_parts, split_uploads


def _form(*parts: tuple[str, bytes], end: bytes = b"--b--\r\n") -> bytes:
    head = 'Content-Disposition: form-data; name="images"; filename="%s"\r\n\r\n'
    return b"".join(b"--b\r\n" + (head % name).encode() + content + b"\r\n" for name, content in parts) + end


def test_files_are_returned_in_order_with_their_names() -> None:
    body = _form(("a.png", b"first"), ("../\N{LATIN SMALL LETTER A WITH DIAERESIS}.png", b"\r\n--x"))
    assert split_uploads(body, b"b", 2) == [Upload("a.png", b"first"), Upload("../ä.png", b"\r\n--x")]


def test_parts_are_counted_without_parsing_and_never_too_few() -> None:
    for count in (1, 2, 16):
        assert count_parts(_form(*[("a", b"x")] * count), b"b") == count
    assert count_parts(_form(("a", b"--b--b")), b"b") == 3
    assert count_parts(b"nonsense", b"b") == 1


def test_a_long_name_is_cut() -> None:
    assert split_uploads(_form(("n" * 1000, b"")), b"b", 1)[0].name == "n" * 200


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (_form(("a", b""), ("b", b"")), 413, "a request may contain at most 1 image"),
        (_form(("a", b"x"), end=b""), 422, "the form data cannot be read: it is truncated"),
        (_form(), 422, "the request contains no image"),
        (_form(("a", b"")).replace(b'"images"', b'"other"'), 422, "unknown form field 'other'"),
        (b"nonsense", 422, "the form data cannot be read"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused(body: bytes, status: int, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        split_uploads(body, b"b", 1)
    assert refused.value.status == status
    assert reason in refused.value.message


def test_a_boundary_is_read_from_the_content_type() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 415),
        ("application/json", 415),
        ("multipart/form-data", 422),
        (f"multipart/form-data; boundary={'x' * 201}", 422),
    ],
)
def test_another_content_type_is_refused(content_type: str | None, status: int) -> None:
    with pytest.raises(Refusal, match="send image files as multipart/form-data") as refused:
        boundary_of(content_type)
    assert refused.value.status == status
