"""Count the scans of a JPEG: a few bytes can add another pass over all of its pixels."""

import re

SOI, EOI, SOS = 0xD8, 0xD9, 0xDA
MARKER = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")  # decoders skip or refuse all other markers


def count_scans(content: bytes) -> int:
    """Count the scans of a JPEG that a decoder would process; any other file has none.

    Content after the end marker (a video of a phone, a second picture) is never decoded and does not count.
    """
    if content[:2] != bytes((0xFF, SOI)):
        return 0
    scans = 0
    offset = 2
    while (match := MARKER.search(content, offset)) is not None:
        marker = match[1][0]
        if marker == EOI:
            break
        if marker == SOS:
            scans += 1
        # skip the segment: it may contain bytes that look like markers, for example in a thumbnail
        offset = match.end() + int.from_bytes(content[match.end() : match.end() + 2], "big")
    return scans
