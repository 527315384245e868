"""Parse the files in a request body in memory; nothing is written to disk."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from prunus.amounts import plural
from prunus.serving.refusals import Refusal

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FIELD = "images"
HOW = f"send image files as multipart/form-data in the field {FIELD!r}"
MAX_NAME = 200  # characters of a client's text that are repeated


@dataclass(frozen=True)
class Upload:
    """One uploaded file; its name comes from the client and is only returned to the client."""

    name: str
    content: bytes


def boundary_of(content_type: str | None) -> bytes:
    """Return the boundary of a multipart request; refuse other content types."""
    kind, options = parse_options_header(content_type)
    if kind.lower() != b"multipart/form-data":
        shown = repr(content_type[:MAX_NAME]) if content_type else "none"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type is {shown}; {HOW}")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 200:
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the content type has no usable boundary; {HOW}")
    return boundary


def count_parts(body: bytes, boundary: bytes) -> int:
    """Return how many parts a body has at most, without parsing it; at least 1."""
    return max(1, body.count(b"--" + boundary) - 1)  # the last one marks the end


def split_uploads(body: bytes, boundary: bytes, max_images: int) -> list[Upload]:
    """Split a body into its files."""
    reader = _Reader(max_images)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise _unreadable(str(error)) from None
    if not reader.complete:
        raise _unreadable("it is truncated")
    if not reader.uploads:
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request contains no image; {HOW}")
    return reader.uploads


def _unreadable(reason: str) -> Refusal:
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the form data cannot be read: {reason[:MAX_NAME]}; {HOW}")


class _Reader:
    """Collects the files that the parser finds."""

    def __init__(self, max_images: int) -> None:
        self.uploads: list[Upload] = []
        self.complete = False
        self._max_images = max_images
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value, self._content = bytearray(), bytearray(), bytearray()

    def callbacks(self) -> MultipartCallbacks:
        """Return the callbacks of the parser by name."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header,
            "on_part_data": lambda data, start, end: self._content.extend(data[start:end]),
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        if len(self.uploads) == self._max_images:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a request may contain at most {plural(self._max_images, 'image')}; "
                "send the others in another request",
            )
        self._headers, self._content = {}, bytearray()

    def _header(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field, self._value = bytearray(), bytearray()

    def _end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        field = options.get(b"name", b"").decode("utf-8", "replace")
        if field != FIELD:
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"unknown form field {field[:MAX_NAME]!r}; {HOW}")
        name = options.get(b"filename", b"").decode("utf-8", "replace")[:MAX_NAME]
        self.uploads.append(Upload(name, bytes(self._content)))

    def _finish(self) -> None:
        self.complete = True
