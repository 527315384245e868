"""Runs prunus commands and Python code in forks of one process that has the slow imports done.

Importing torch takes seconds, more than most of the commands in the documentation. The `prunus` and `python` made here
hand over their arguments, folder, variables and streams, and exit with the status of the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import prunus

SLOW_IMPORTS = (
    "torch.utils.tensorboard",
    "torchvision.transforms.v2",
    "timm",
    "safetensors.torch",
    "matplotlib.pyplot",
    "onnxruntime",
    "prunus.cli.app",
)
STREAMS = 3

# written with few imports, since it starts for every command
CLIENT = """#!{python} -SEI
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([{kind!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    server.sendmsg([b"%08d" % len(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    server.sendall(request)
    status = server.recv(16)
sys.exit(int(status or b"70"))
"""


@contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """Start the process, and return a folder for PATH with a `prunus` and a `python` that use it."""
    address = str(folder / "address")
    for name in ("prunus", "python"):
        (folder / name).write_text(CLIENT.format(python=sys.executable, address=address, kind=name))
        (folder / name).chmod(0o755)
    with subprocess.Popen([sys.executable, "-m", __spec__.name, address], cwd=Path(__file__).parents[2]) as process:
        try:
            while not Path(address).exists() and process.poll() is None:
                time.sleep(0.02)
            assert process.poll() is None
            yield folder
        finally:
            process.terminate()


def serve(address: str) -> None:
    """Answer one request after another; a fork runs each."""
    sys.modules["ray"] = None  # type: ignore[assignment]  # its processes import torch; tests/verbs/test_sweep.py has them
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    for name in dir(prunus):
        getattr(prunus, name)  # imports what it needs
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{address}.new")
        server.listen()
        Path(f"{address}.new").rename(address)
        while True:
            client, _ = server.accept()
            with client:
                child = os.fork()
                if child == 0:
                    server.close()
                    _answer(client)
                _, status = os.waitpid(child, 0)
                with suppress(BrokenPipeError):
                    client.sendall(b"%d" % (os.waitstatus_to_exitcode(status) & 0xFF))


def _answer(client: socket.socket) -> None:
    """Take over streams, folder and variables, run, and end this process."""
    code: object = 1
    try:
        size, streams, _, _ = socket.recv_fds(client, 8, STREAMS)
        text = b""
        while len(text) < int(size):
            text += client.recv(int(size) - len(text))
        kind, arguments, folder, variables = json.loads(text)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.modules["__main__"] = types.ModuleType("__main__")  # processes that the command starts import no file
        KINDS[kind](arguments)
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:  # the fork ends here, whatever happens
        traceback.print_exc()
    _end(code)


def _end(code: object) -> None:
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _run_prunus(arguments: list[str]) -> None:
    sys.argv = ["prunus", *arguments]
    importlib.import_module("prunus.cli.app").main()


def _run_code(arguments: list[str]) -> None:
    """Run the code behind -c as `python -W error -c` does."""
    *options, code = arguments
    assert options == ["-W", "error", "-c"], options
    warnings.simplefilter("error")
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


KINDS = {"prunus": _run_prunus, "python": _run_code}

if __name__ == "__main__":
    serve(sys.argv[1])
