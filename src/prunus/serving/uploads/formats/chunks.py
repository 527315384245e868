"""Drop the parts of a PNG that are not needed for its pixels, because Pillow inflates them when it opens a file."""

import zlib
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
NEEDED = (b"PLTE", b"IDAT", b"IEND", b"tRNS", b"acTL", b"fcTL", b"eXIf")  # the last three: animations, orientation
TEXTS = (b"tEXt", b"zTXt", b"iTXt")
ORIENTED = (b"Raw profile type exif", b"XML:com.adobe.xmp")  # keywords of texts that tell how the camera was held
MAX_TEXT = 1 << 20  # bytes of an inflated text; Pillow's own limit


def strip_png(content: bytes) -> bytes:
    """Return a PNG with the chunks that decide its pixels; any other file is returned as it is."""
    if not content.startswith(SIGNATURE):
        return content
    kept: list[bytes] = [SIGNATURE]
    texts = set(ORIENTED)
    for number, (name, chunk) in enumerate(_chunks(content)):
        if name in NEEDED or (name == b"IHDR" and number == 0):  # a second header would change the size
            kept.append(chunk)
        elif name in TEXTS and (keyword := chunk[8:88].partition(b"\0")[0]) in texts and _is_short(name, chunk[8:-4]):
            texts.remove(keyword)
            kept.append(chunk)
    return b"".join(kept)


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """List the chunks with their names up to the last one; the end of a truncated file is a chunk too."""
    offset = len(SIGNATURE)
    while offset < len(content):
        name = content[offset + 4 : offset + 8]
        end = offset + 12 + int.from_bytes(content[offset : offset + 4], "big")
        yield name, content[offset:end]
        if name == b"IEND":
            return
        offset = end


def _is_short(name: bytes, text: bytes) -> bool:
    """Return whether a text is short, also after inflation; at most the limit is inflated to find out."""
    _, _, rest = text.partition(b"\0")
    if name == b"zTXt":
        packed = rest[1:]
    elif name == b"iTXt" and rest[:1] != b"\0":
        packed = rest[2:].split(b"\0", 2)[-1]
    else:
        return len(text) <= MAX_TEXT
    inflater = zlib.decompressobj()
    try:
        inflater.decompress(packed, MAX_TEXT)
    except zlib.error:
        return False
    return inflater.eof
