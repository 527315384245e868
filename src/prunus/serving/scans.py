"""Count how often a JPEG paints its whole picture: a few bytes can ask for one more pass over all of its pixels."""

from __future__ import annotations

import re

SOI, EOI, SOS = 0xD8, 0xD9, 0xDA
MARKER = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")  # what decoders stop at; they skip or refuse all others


def count_scans(content: bytes) -> int:
    """Count the scans of a JPEG up to its end, as a decoder would meet them; any other file has none.

    What follows the end (a phone's film, a second picture) is never decoded and does not count.
    """
    if content[:2] != bytes((0xFF, SOI)):
        return 0
    scans, place = 0, 2
    while (found := MARKER.search(content, place)) is not None:
        marker = found[1][0]
        if marker == EOI:
            break
        scans += marker == SOS
        # a segment may hold the bytes of a marker, such as a small picture of the picture: step over it
        place = found.end() + int.from_bytes(content[found.end() : found.end() + 2], "big")
    return scans
