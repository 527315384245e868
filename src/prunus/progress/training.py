"""The progress of a training run: a bar and a table in a terminal or notebook, one line per epoch elsewhere."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import override

from prunus.amounts import plural
from prunus.names import shown
from prunus.report.tables import percent
from prunus.run_folder import EpochReport
from prunus.terminal import PlainTable, is_live, plain_text
from prunus.training.observers import Observer


class TrainingProgress(Observer):
    """A display of every domain's accuracy, and of the kernels used if the method chooses them."""

    def __init__(self, title: str, console: Console) -> None:
        self._title = shown(title)
        self._console = console
        columns = (
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console)
        self._live: Live | None = None
        self._decoding = Progress(
            TextColumn("decoding {task.description}", markup=False), BarColumn(), MofNCompleteColumn(), console=console
        )
        self._decoding_tasks: dict[tuple[str, int], TaskID] = {}
        self._splits: dict[str, str] = {}

    @override
    def noted(self, message: str) -> None:
        self._console.print(plain_text(f"note: {message}"))

    @override
    def loading(self, domain: str, split: str) -> None:
        self._splits[domain] = split

    @override
    def loaded(self, domain: str, done: int, total: int) -> None:
        if not is_live(self._console):
            return
        self._decoding.start()  # does nothing from the second time on
        split = self._splits.get(domain)
        title = shown(f"{domain} ({split})" if split else domain)
        task = self._decoding_tasks.get((title, total))
        if task is None:
            task = self._decoding_tasks[title, total] = self._decoding.add_task(title, total=total)
        self._decoding.update(task, completed=done)

    @override
    def started(self, step: int, total_steps: int) -> None:
        if self._decoding_tasks:
            self._decoding.stop()
        self._task = self._bar.add_task(self._title, total=total_steps, completed=step)
        if is_live(self._console):
            self._live = Live(self._bar, console=self._console, refresh_per_second=8)
            self._live.start()
        else:
            self._console.print(plain_text(f"{self._title}: {plural(total_steps - step, 'step')} to go"))

    @override
    def stepped(self, step: int, epoch: int) -> None:
        self._bar.update(self._task, completed=step)

    @override
    def progressed(self, report: EpochReport) -> None:
        if self._live:
            self._live.update(Group(self._bar, _table(report)))

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        if self._live:
            self.progressed(report)
        else:
            self._console.print(plain_text(f"  {epoch_line(report)}"), soft_wrap=True)

    @override
    def ended(self) -> None:
        if self._live:
            self._live.stop()


def _speed(report: EpochReport, separator: str) -> str:
    return f"{separator}{report.images_per_second:,.0f} images/s" if report.images_per_second else ""


def epoch_line(report: EpochReport) -> str:
    """Describe an epoch in one line."""
    domains = report.domains.values()
    held_out = [domain.validation_accuracy for domain in domains if domain.validation_accuracy is not None]
    accuracies = held_out or [domain.train_accuracy for domain in domains]
    usage = percent(max(domain.usage for domain in domains))
    largest = "largest usage" if report.is_ending else "switched on: at most"
    shares = f", {largest} {usage}, all domains together {percent(report.union)}" if report.has_switches else ""
    return (
        f"epoch {report.epoch + 1}: mean accuracy {percent(sum(accuracies) / len(accuracies))} "
        f"({'validation' if held_out else 'training images'}){shares}{_speed(report, ', ')}"
    )


def _table(report: EpochReport) -> PlainTable:
    by_any, by_every = percent(report.union), percent(report.intersection)
    use = "used" if report.is_ending else "switched on"
    shares = f": kernels {use} by any domain {by_any},\nby every domain {by_every}"
    table = PlainTable("domain")
    is_validated = any(domain.validation_accuracy is not None for domain in report.domains.values())
    for column in ("loss", "train", *(["validation"] * is_validated), *([f"kernels {use}"] * report.has_switches)):
        table.add_column(column, justify="right")
    table.caption = f"epoch {report.epoch + 1}{shares if report.has_switches else ''}" + _speed(report, "\n")
    for name, domain in report.domains.items():
        validation = [percent(domain.validation_accuracy)] * is_validated
        usage = [percent(domain.usage)] * report.has_switches
        table.add_row(name, f"{domain.loss:.3f}", percent(domain.train_accuracy), *validation, *usage)
    return table
