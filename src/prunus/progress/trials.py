"""The progress of training runs at the same time: a bar each in a terminal or notebook, one line each elsewhere."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import Self, override

from prunus.amounts import plural
from prunus.names import shown
from prunus.progress.training import epoch_line
from prunus.run_folder import EpochReport
from prunus.terminal import is_live, plain_text
from prunus.training.observers import Observer


class TrialsProgress(AbstractContextManager["TrialsProgress"]):
    """One display for all training runs."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
            console=console,
            disable=not is_live(console),
            transient=True,
        )

    @override
    def __enter__(self) -> Self:
        self.bars.start()
        return self

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def watch(self, title: str) -> Sequence[Observer]:
        """Return the observer of one training run."""
        return [TrialProgress(title, self)]

    def note(self, text: str) -> None:
        """Print a message above the bars."""
        self.console.print(plain_text(f"note: {text}"), soft_wrap=True)


class TrialProgress(Observer):
    """The bar of one training run, and its result when it ends."""

    def __init__(self, title: str, display: TrialsProgress) -> None:
        self._title = shown(title)
        self._display = display
        self._task: TaskID | None = None
        self._last: EpochReport | None = None

    @override
    def noted(self, message: str) -> None:
        self._display.note(message)

    @override
    def started(self, step: int, total_steps: int) -> None:
        self._task = self._display.bars.add_task(self._title, total=total_steps, completed=step)
        if not is_live(self._display.console):
            self._print(f"{self._title}: {plural(total_steps - step, 'step')} to go")

    @override
    def stepped(self, step: int, epoch: int) -> None:
        if self._task is not None:
            self._display.bars.update(self._task, completed=step)

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        self._last = report

    @override
    def ended(self) -> None:
        if self._task is not None:
            self._display.bars.remove_task(self._task)
        if self._last is not None:
            self._print(f"{self._title}: {epoch_line(self._last)}")

    def _print(self, text: str) -> None:
        self._display.console.print(plain_text(text), soft_wrap=True)
