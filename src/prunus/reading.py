"""Read files that others made: only regular files, only known compression, and never more bytes than a limit.

Everything that is wrong is an OSError, or one of DAMAGE for a member of a zip file.
"""

import bz2
import copy
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

CHUNK_BYTES = 2**16  # read or inflated at a time
MAX_DICTIONARY_BYTES = 128 * 2**20  # of LZMA, whose header may ask for 4 GB
DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError)
OPENING = (zipfile.BadZipFile, OSError, ValueError, NotImplementedError)  # of a zip file; ValueError if a name is wrong
KINDS: dict[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}
METHODS = {1: "Shrink", 6: "Implode", 9: "Deflate64", 93: "Zstandard", 94: "MP3", 95: "XZ", 98: "PPMd", 99: "AES"}


class RefusedFileError(OSError):
    """A file that is not read, although the system would allow it; the text says why."""


def read_file(path: Path, limit: int) -> bytes:
    """Read a regular file, or the regular file that a link names; waits for nothing and reads no device."""
    _check_regular(path.stat().st_mode)  # first: opening a device may already do something
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        _check_regular(status.st_mode)  # again: the name may stand for another file by now
        if status.st_size > limit:
            raise RefusedFileError(f"it has {status.st_size:,} bytes; at most {limit:,} are read")
        return read_stream(file, limit)


def read_stream(file: IO[bytes], limit: int) -> bytes:
    """Read a stream to its end; the size that the system reports for it may be wrong."""
    return _collect(iter(lambda: file.read(CHUNK_BYTES), b""), limit, f"it has more than {limit:,} bytes")


def read_member(file: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    """Inflate a member of a zip file piece by piece; it must have exactly the size and the checksum that it claims."""
    if info.flag_bits & 1:
        raise RefusedFileError("it is encrypted; pack it again without a password")
    if info.compress_type not in INFLATERS:
        method = METHODS.get(info.compress_type, "unknown")
        raise RefusedFileError(
            f"its compression method is {info.compress_type} ({method}); pack it again with Deflate, as zip does"
        )
    if info.file_size > limit:
        raise RefusedFileError(f"it claims {info.file_size:,} bytes; at most {limit:,} are read")
    stored = copy.copy(info)  # opened as if it were not compressed: zipfile would inflate without a limit
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
    del stored.CRC  # it is that of the inflated bytes
    with file.open(stored) as compressed:
        pieces = INFLATERS[info.compress_type](compressed)
        content = _collect(pieces, info.file_size, f"it claims {info.file_size:,} bytes, but holds more")
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile("its size or checksum is wrong")
    return content


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for kind, matches in KINDS.items() if matches(mode)), "something else")
        raise RefusedFileError(f"it is {kind}, not a regular file")


def _collect(pieces: Iterator[bytes], limit: int, complaint: str) -> bytes:
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > limit:
            raise RefusedFileError(complaint)
    return bytes(content)


class _Decompressor(Protocol):
    """The decompressors of bz2 and lzma, which keep what does not fit into the output yet."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _stored(compressed: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: compressed.read(CHUNK_BYTES), b"")


def _deflated(compressed: IO[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in _stored(compressed):
        rest = piece
        while rest and not inflater.eof:
            yield inflater.decompress(rest, CHUNK_BYTES)
            rest = inflater.unconsumed_tail
    while not inflater.eof and (piece := inflater.decompress(inflater.unconsumed_tail, CHUNK_BYTES)):
        yield piece  # what was inflated already, but did not fit


def _inflated(compressed: IO[bytes], inflater: _Decompressor) -> Iterator[bytes]:
    while not inflater.eof:
        data = compressed.read(CHUNK_BYTES) if inflater.needs_input else b""
        if inflater.needs_input and not data:
            return
        yield inflater.decompress(data, CHUNK_BYTES)


def _bzip2(compressed: IO[bytes]) -> Iterator[bytes]:
    return _inflated(compressed, bz2.BZ2Decompressor())


def _lzma(compressed: IO[bytes]) -> Iterator[bytes]:
    """Inflate LZMA: the zip format stores a version, the length of the properties, the properties and raw data."""
    head = compressed.read(4)
    properties = compressed.read(5)
    if head[2:] != b"\x05\x00" or len(properties) < 5:
        raise lzma.LZMAError("its LZMA header is wrong")
    inflater = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MAX_DICTIONARY_BYTES)
    inflater.decompress(properties + b"\xff" * 8)  # of a file of unknown size, whose reader takes a limit of memory
    return _inflated(compressed, inflater)


INFLATERS: dict[int, Callable[[IO[bytes]], Iterator[bytes]]] = {
    zipfile.ZIP_STORED: _stored,
    zipfile.ZIP_DEFLATED: _deflated,
    zipfile.ZIP_BZIP2: _bzip2,
    zipfile.ZIP_LZMA: _lzma,
}
