"""A training as it goes: a bar and a table in a terminal, a line per epoch elsewhere."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from prunus.report.tables import percent
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer


class TrainingProgress(Observer):
    """Shows the running accuracy and usage of every domain and the union of all."""

    def __init__(self, title: str, console: Console) -> None:
        self._title, self._console = title, console
        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console)
        self._live: Live | None = None
        self._decoding: Progress | None = None
        self._decoding_tasks: dict[tuple[str, int], TaskID] = {}

    def noted(self, message: str) -> None:
        """Print it."""
        self._console.print(f"note: {message}", markup=False, highlight=False)

    def loaded(self, domain: str, done: int, total: int) -> None:
        """Count decoded images."""
        if not self._console.is_terminal:
            return
        if self._decoding is None:
            self._decoding = Progress(
                TextColumn("decoding {task.description}"), BarColumn(), MofNCompleteColumn(), console=self._console
            )
            self._decoding.start()
        task = self._decoding_tasks.get((domain, total))
        if task is None:
            task = self._decoding_tasks[domain, total] = self._decoding.add_task(domain, total=total)
        self._decoding.update(task, completed=done)

    def started(self, step: int, total_steps: int) -> None:
        """Open the display."""
        if self._decoding:
            self._decoding.stop()
        self._task = self._bar.add_task(self._title, total=total_steps, completed=step)
        if self._console.is_terminal:
            self._live = Live(self._bar, console=self._console, refresh_per_second=8)
            self._live.start()
        else:
            self._console.print(f"{self._title}: {total_steps - step} steps to go", markup=False)

    def stepped(self, step: int, epoch: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=step)

    def progressed(self, report: EpochReport) -> None:
        """Show how every domain stands so far."""
        if self._live:
            self._live.update(Group(self._bar, _table(report)))

    def epoch_ended(self, report: EpochReport) -> None:
        """Show how every domain stands."""
        if self._live:
            self._live.update(Group(self._bar, _table(report)))
            return
        means = [
            p.train_accuracy if p.validation_accuracy is None else p.validation_accuracy
            for p in report.domains.values()
        ]
        largest = max(p.usage for p in report.domains.values())
        line = f"  epoch {report.epoch + 1}: mean accuracy {percent(sum(means) / len(means))} ({_which(report)}), "
        self._console.print(
            line + f"largest usage {percent(largest)}, union {percent(report.union)}", highlight=False, soft_wrap=True
        )

    def ended(self) -> None:
        """Close the display."""
        if self._live:
            self._live.stop()


def _which(report: EpochReport) -> str:
    held_out = any(progress.validation_accuracy is not None for progress in report.domains.values())
    return "validation" if held_out else "training images"


def _table(report: EpochReport) -> Table:
    table = Table(
        caption=f"epoch {report.epoch + 1}: union {percent(report.union)}, intersection {percent(report.intersection)}"
    )
    for name in ("domain", "loss", "train", "validation", "kernels used"):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for name, p in report.domains.items():
        table.add_row(
            name, f"{p.loss:.3f}", percent(p.train_accuracy), percent(p.validation_accuracy), percent(p.usage)
        )
    return table
