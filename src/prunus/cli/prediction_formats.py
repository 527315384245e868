"""The predictions for image files as text: CSV, JSON lines, JSON, and tables for a reader."""

import csv
import io
import json
import os.path
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic_core import to_jsonable_python
from rich.cells import cell_len

from prunus.amounts import plural
from prunus.cli.output import make_table
from prunus.errors import DataError, UnknownNameError
from prunus.names import is_unseen, shown
from prunus.report.tables import percent
from prunus.runtime.image_files import FileResult
from prunus.runtime.predictor import Result
from prunus.terminal import PlainTable

TABLE = "table"
MOST_TABLES = 4  # images with a table of their own; more are the rows of one table
WHOLE = 24  # characters of a class or domain that a narrow terminal does not break


def as_content(file: FileResult) -> dict[str, object]:
    """Return one file's predictions, or its error, as plain data."""
    answer = {"error": file.error} if file.result is None else {"predictions": file.result.predictions}
    return {"image": str(file.image), "domain": file.domain, **answer}


def to_json(files: Sequence[FileResult]) -> str:
    """Return one JSON array."""
    return _visible(json.dumps(to_jsonable_python([as_content(file) for file in files]), indent=2, ensure_ascii=False))


def to_json_lines(files: Sequence[FileResult]) -> str:
    """Return one JSON object per line and image."""
    lines = (json.dumps(to_jsonable_python(as_content(file)), ensure_ascii=False) for file in files)
    return "\n".join(map(_visible, lines))


def to_csv(files: Sequence[FileResult]) -> str:
    """Return one row per image: label and probability, those of the next classes, and what is wrong with the image."""
    most = max((len(file.result) for file in files if file.result), default=1)
    numbers = ["", *(f"_{rank}" for rank in range(2, most + 1))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"{column}{number}" for number in numbers for column in ("label", "probability")]
    writer.writerow(["image", "domain", *columns, "error"])
    for file in files:
        cells = [cell for guess in file.result or () for cell in (guess.label, f"{guess.probability:.6f}")]
        writer.writerow([file.image, file.domain, *cells, *[""] * (2 * most - len(cells)), file.error or ""])
    return text.getvalue().removesuffix("\n")


def tables(files: Sequence[FileResult]) -> list[PlainTable]:
    """Return a table per image for a few of them, and one table with the best class of each for many."""
    read = [(file, file.result) for file in files if file.result is not None]
    if len(read) > MOST_TABLES:
        return [_one_table(read)]
    return [
        make_table(
            ("class", "probability"),
            f"{file.image} ({file.domain})",
            rows=((guess.label, percent(guess.probability)) for guess in result),
        )
        for file, result in read
    ]


def _one_table(read: Sequence[tuple[FileResult, Result]]) -> PlainTable:
    """Return the best class of each image; the folder and the domain that all share are in the title."""
    folder = _common_folder([file.image.parent for file, _ in read])
    domains = list(dict.fromkeys(file.domain for file, _ in read))
    shared = [f" in {folder}" if folder else "", f" ({domains[0]})" if len(domains) == 1 else ""]
    columns = ("image", "domain", "class", "probability")
    table = make_table(columns, f"{plural(len(read), 'image')}{''.join(shared)}", left=("domain", "class"))
    for file, result in read:
        image = file.image.relative_to(folder) if folder else file.image
        table.add_row(str(image), file.domain, result.label, percent(result.probability))
    table.columns[1].min_width = _whole(domains)
    table.columns[2].min_width = _whole([result.label for _, result in read])
    if len(domains) == 1:
        del table.columns[1]
    return table


def _common_folder(folders: Sequence[Path]) -> Path | None:
    try:
        common = Path(os.path.commonpath(folders))
    except ValueError:  # some are absolute and others are not, or they are on several drives
        return None
    return common if common.parts else None


def _whole(names: Sequence[str]) -> int:
    return min(WHOLE, max(cell_len(shown(name)) for name in names))


FORMATS: dict[str, Callable[[Sequence[FileResult]], str]] = {"csv": to_csv, "jsonl": to_json_lines, "json": to_json}


def choose_format(name: str | None, out: Path | None, as_json: bool) -> str:
    """Return the format that a user asked for, by name or by the end of a file's name."""
    if as_json and name not in {None, "json"}:
        raise DataError(f"--json and --format {name} contradict each other; remove one of them")
    chosen = name or ("json" if as_json else out.suffix.lower().removeprefix(".") if out else TABLE)
    if out and name is None and not as_json and chosen not in FORMATS:
        raise DataError(f"{out} must end in {', '.join(f'.{known}' for known in FORMATS)}, or pass --format")
    known = [*([] if out else [TABLE]), *FORMATS]
    if chosen not in known:
        raise UnknownNameError("format", chosen, known)
    return chosen


def _visible(text: str) -> str:
    """Write what could not be seen as JSON writes it: the data stay exact."""
    return "".join(json.dumps(c)[1:-1] if c != "\n" and is_unseen(c) else c for c in text)
