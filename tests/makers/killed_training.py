"""Train a recipe once in one piece and once killed by SIGKILL again and again.

This is a program, `python -m tests.makers.killed_training RECIPE FOLDER KILLS SEED`. It imports everything once and
forks a process for every attempt, because importing takes longer than an attempt. It prints a JSON list of `Kill`s.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import select
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Buffer, override

from prunus.config import Recipe
from prunus.errors import PrunusError
from prunus.recipes import load_recipe
from prunus.training.observers import Observer
from prunus.training.run import train_or_continue

WRITING = ("half written", "written, not renamed", "renamed", "kept")  # an attempt waits there to be killed
MOMENTS = (*WRITING, "half written", "stepped", "stepped", "stepped", "started")
PREVIOUS = "previous.safetensors"
MOST_STEPS = 4
LONGEST_DELAY = 0.03  # seconds after "stepped" and "started": any moment of the next steps
PATIENCE = 60.0
REFUSED = 3  # the exit status of an attempt that said why it cannot train


@dataclass(frozen=True)
class Kill:
    """How an attempt ended: the event it was killed after, and whether a partial file was found afterwards.

    Args:
        notes: what it told the user.
        refusal: why it did not train, if it said so.
    """

    event: str
    was_killed: bool
    left_partial_file: bool
    notes: tuple[str, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True)
class Moment:
    """When an attempt is killed: some seconds after the first event that follows so many steps."""

    event: str
    steps: int
    delay: float


NEVER = Moment("never", 0, 0.0)


def draw_moment(number: int, rng: random.Random) -> Moment:
    """Draw the moment of the kill of this number."""
    event = MOMENTS[number % len(MOMENTS)]
    steps = 0 if event == "started" else rng.randint(0, MOST_STEPS)
    return Moment(event, steps, 0.0 if event in WRITING else rng.uniform(0, LONGEST_DELAY))


class Events(Observer):
    """Tells the parent about the first fatal event after some steps, and leaves its notes in a file."""

    def __init__(self, pipe: int, moment: Moment, notes: Path) -> None:
        self._pipe = pipe
        self._fatal = moment.event
        self._steps = moment.steps
        self._notes = notes

    def happened(self, event: str) -> None:
        """Tell the parent if the event is the fatal one; in the middle of writing, wait to be killed."""
        if event == self._fatal and self._steps <= 0:
            os.write(self._pipe, b"!")
            if event in WRITING:
                time.sleep(PATIENCE)

    @override
    def noted(self, message: str) -> None:
        with self._notes.open("a") as file:
            file.write(json.dumps(message) + "\n")

    @override
    def started(self, step: int, total_steps: int) -> None:
        self.happened("started")

    @override
    def stepped(self, step: int, epoch: int) -> None:
        self._steps -= 1
        self.happened("stepped")


class HalvedFile(io.BufferedWriter):
    """A file whose content reaches the disk in two halves."""

    def __init__(self, path: Path, between: Callable[[], None]) -> None:
        super().__init__(io.FileIO(path, "w"))
        self._between = between

    @override
    def write(self, content: Buffer) -> int:
        data = bytes(content)
        super().write(data[: len(data) // 2])
        self.flush()
        self._between()
        return super().write(data[len(data) // 2 :])


def watch_writes(happened: Callable[[str], None]) -> None:
    """Report the stages of writing a checkpoint, in this process only."""
    open_file, rename, sync = Path.open, Path.replace, os.fsync
    state = {"checkpoint": False}

    def watched_open(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        state["checkpoint"] = mode == "wb" and path.suffix == ".tmp" and ".safetensors." in path.name
        if state["checkpoint"]:
            return HalvedFile(path, lambda: happened("half written"))
        return open_file(path, mode, *arguments, **options)

    def watched_sync(file: int) -> None:
        if state["checkpoint"] and stat.S_ISREG(os.fstat(file).st_mode):
            happened("written, not renamed")
        sync(file)

    def watched_rename(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        if state["checkpoint"]:
            happened("kept" if target.name == PREVIOUS else "renamed")
        return renamed

    Path.open = watched_open  # type: ignore[assignment, method-assign]
    Path.replace = watched_rename  # type: ignore[assignment, method-assign]
    os.fsync = watched_sync  # type: ignore[assignment]


def attempt(recipe: Recipe, folder: Path, moment: Moment, use_cache: bool = False) -> Kill:
    """Train in a process of its own and kill it at a moment."""
    reading, writing = os.pipe()
    notes = folder.with_name(f"{folder.name}.notes")
    notes.write_text("")
    process = os.fork()
    if process == 0:
        os.close(reading)
        events = Events(writing, moment, notes)
        watch_writes(events.happened)
        try:
            train_or_continue(recipe, folder, [events], "cpu", use_cache)
        except PrunusError as error:
            events.noted(str(error))
            os._exit(REFUSED)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    select.select([reading], [], [], PATIENCE)  # the event, or the end of the process
    time.sleep(moment.delay)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    os.close(reading)
    code = os.waitstatus_to_exitcode(status)
    if code > 0 and code != REFUSED:
        raise SystemExit("an attempt failed")
    said = tuple(map(json.loads, notes.read_text().splitlines()))
    refusal = said[-1] if code == REFUSED else None
    is_partial = any(folder.glob(".*.safetensors.*.tmp"))
    return Kill(moment.event, code == -signal.SIGKILL, is_partial, said, refusal)


def import_all() -> None:
    """Import once, and not in every attempt."""
    import torch.utils.tensorboard

    torch.set_num_threads(1)  # threads do not survive a fork


def main() -> None:
    """Train with kills, then to the end, then in one piece."""
    import_all()
    recipe = load_recipe(Path(sys.argv[1]))
    folder = Path(sys.argv[2])
    rng = random.Random(int(sys.argv[4]))
    kills = [attempt(recipe, folder / "killed", draw_moment(number, rng)) for number in range(int(sys.argv[3]))]
    rarely = recipe.training.model_copy(update={"checkpoint_seconds": 1e9})
    for name, whole in (("killed", recipe), ("straight", recipe.model_copy(update={"training": rarely}))):
        last = attempt(whole, folder / name, NEVER)
        if last.was_killed or last.refusal:
            raise SystemExit(f"{name} did not end by itself: {last.refusal}")
    print(json.dumps([dataclasses.asdict(kill) for kill in kills]))


if __name__ == "__main__":
    main()
