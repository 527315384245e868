"""A decoder process: it reads requests from a socket, decodes them and sends the network inputs back.

It imports neither the model nor the web server, and ends when the service closes the socket.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import warnings

# registers the allowed formats; otherwise Pillow would import all of its formats with the first request
from PIL import BmpImagePlugin, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, PpmImagePlugin, WebPImagePlugin

from prunus.serving.uploads.decoding import decode
from prunus.serving.uploads.messages import LENGTHS, Answer, Task, frame
from prunus.serving.uploads.restraint import restrain

PLUGINS = (BmpImagePlugin, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, PpmImagePlugin, WebPImagePlugin)


def run_decoder(max_pixels: int, niceness: int) -> None:
    """Serve the socket that is the standard input until it is closed."""
    warnings.filterwarnings("ignore")  # uploads may be malformed
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    with _connection() as connection:
        restrain(max_pixels, niceness)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the service has ended
            serve(connection)


def serve(connection: socket.socket) -> None:
    """Report that the process is ready, and answer requests one after the other, in their order."""
    connection.sendall(frame(Answer(), 0))
    with connection.makefile("rb", buffering=1 << 16) as stream:
        while len(lengths := stream.read(LENGTHS.size)) == LENGTHS.size:
            head, rest = LENGTHS.unpack(lengths)
            task = Task.model_validate_json(stream.read(head))
            answer, content = decode(task, stream.read(rest))
            connection.sendall(frame(answer, len(content)) + content)
            del answer, content  # otherwise they would stay in memory until the next request


def _connection() -> socket.socket:
    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=0)
