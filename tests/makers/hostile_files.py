"""Files that lie, wait or never end, and names that do more than appear."""

from __future__ import annotations

import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

BOMB_BYTES = 32 * 2**20  # what a lying member inflates to
CENTRAL = b"PK\x01\x02"

# a class name, and how it is shown
HOSTILE_NAMES = {
    "[red]0[/red]": "[red]0[/red]",
    "[/]": "[/]",
    ":bug: [bold": ":bug: [bold",
    "\x1b[31mred\x1b[0m\x07": r"\x1b[31mred\x1b[0m\x07",
    "\x9b2J": r"\x9b2J",
    "a\u202egnp.exe\u2066": r"a\u202egnp.exe\u2066",
    "two\nlines\r\t": r"two\nlines\r\t",
    "<b>&amp;</b>": "<b>&amp;</b>",
}


def write_liar(path: Path, compression: int, name: str = "train/a/x.png", claim: int = 1000) -> Path:
    """Write a zip file with a member of zeros that claims to be small."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(name, bytes(BOMB_BYTES))
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.rindex(CENTRAL) + 24, claim)
    path.write_bytes(content)
    return path


def set_central(path: Path, offset: int, value: int) -> Path:
    """Change a 16-bit number of the last entry of a zip file's directory: 8 holds flags, 10 the compression method."""
    content = bytearray(path.read_bytes())
    struct.pack_into("<H", content, content.rindex(CENTRAL) + offset, value)
    path.write_bytes(content)
    return path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


# what is at a path -> how it is made
NOT_REGULAR: dict[str, Callable[[Path], None]] = {
    "a named pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": _socket,
    "a folder": Path.mkdir,
}
