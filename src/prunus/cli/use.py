"""Commands that use a model file: `predict`, `serve`, `export` and `card`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import prunus
from prunus.amounts import plural
from prunus.cli.options import AsJson, ModelFile
from prunus.cli.output import complain, say, show, tell, waiting
from prunus.errors import DataError
from prunus.files import write_atomically
from prunus.recipes import parse_assignment
from prunus.report.tables import file_size
from prunus.terminal import is_live, plain_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prunus.runtime.image_files import FileResult

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a limit, as in max_upload_mb=4. May be repeated."),
]


def predict(
    model: ModelFile,
    images: Annotated[list[Path], typer.Argument(help="Image files, folders, or patterns such as 'photos/*.jpg'.")],
    domain: Annotated[
        str | None, typer.Option(help="The domain of the images.", show_default="the one named like their folder")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to show.")] = 5,
    out: Annotated[Path | None, typer.Option(help="File to write: .csv, .jsonl or .json.")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="table, csv, jsonl or json.", show_default="by the name of --out")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify images with a model file; exit with 1 if an image cannot be read.

    Example: prunus predict model.prunus photos --domain birds --out photos.csv
    """
    from prunus.cli.prediction_formats import FORMATS, TABLE, choose_format, tables
    from prunus.runtime.image_files import find_images

    chosen = choose_format(form, out, as_json)
    predictor = prunus.Predictor(model)
    if domain is not None:
        predictor.bundle.check_domain(domain)
    found = find_images(images)
    domains = [domain] * len(found) if domain else _domains_of(found, predictor.domains)
    results = _classify(predictor, found, domains, top)
    if out:
        write_atomically(out, f"{FORMATS[chosen](results)}\n".encode(errors="surrogateescape"))
        say(f"{out}: {plural(len(results), 'image')}")
    elif chosen == TABLE:
        show(None, False, *tables(results))
    else:
        say(*FORMATS[chosen](results).split("\n"))
    failed = [file for file in results if file.error]
    for file in failed:
        complain("error", file.error or "")
    raise typer.Exit(1 if failed else 0)


def _domains_of(images: Sequence[Path], domains: Sequence[str]) -> list[str]:
    """Return the domain of each image; that a file is missing explains more than that its domain is not known."""
    from prunus.runtime.image_files import domains_of

    try:
        return domains_of(images, domains)
    except DataError:
        if missing := [image for image in images if not image.exists()]:
            raise DataError(f"there is no image {missing[0]}") from None
        raise


def _classify(
    predictor: prunus.Predictor, images: Sequence[Path], domains: Sequence[str], top: int
) -> list[FileResult]:
    """Classify files, with a bar in a terminal if they are many."""
    from prunus.runtime.image_files import BATCH, predict_files

    console = plain_console(stderr=True)
    columns = (TextColumn("classifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = is_live(console) and len(domains) > BATCH
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        return list(progress.track(predict_files(predictor, images, domains, top), total=len(domains)))


def serve(
    model: ModelFile,
    host: Annotated[
        str | None, typer.Option(help="Address; 0.0.0.0 listens on all interfaces.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8000")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another host name to answer to. May be repeated.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that serve requests.", show_default="1")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per batch.", show_default="1")] = None,
    examples: Annotated[
        str | None,
        typer.Option(help="Example images for the page: a folder DOMAIN/IMAGE, or demo: for the bundled ones."),
    ] = None,
    overrides: Settings = None,
) -> None:
    """Serve a model file over HTTP: a page to try it, an API and metrics.

    Example: prunus serve model.prunus --examples demo:
    """
    from prunus.serving.settings import parse_settings

    options = {"host": host, "port": port, "allow_hosts": allow_host, "workers": workers, "threads": threads}
    settings = dict(parse_assignment(override, "max_upload_mb=4") for override in overrides or ())
    values = {name: value for name, value in options.items() if value is not None} | settings
    prunus.serve(
        model,
        parse_settings(values),
        examples,
        lambda address: say(f"Serving {model.name} at {address} (stop with Ctrl-C)"),
    )


def export(
    model: ModelFile,
    onnx: Annotated[Path, typer.Option("--onnx", "--out", help="Folder for the ONNX models.")],
    single: Annotated[
        bool, typer.Option("--single", help="Write one model that takes the domain's number as an input.")
    ] = False,
) -> None:
    """Write ONNX models: one per domain with only the channels it needs, or one for all domains.

    Example: prunus export model.prunus --onnx onnx
    """
    from prunus.onnx.files import LABELS, promise, weights_file
    from prunus.onnx.model import OPSET

    predictor = prunus.Predictor(model)
    with waiting("exporting and comparing"):
        written = prunus.export(predictor, onnx, single)
    import onnxruntime  # installed, or the export would have failed

    for path in written:
        say(f"{path}: {file_size(path.stat().st_size)}")
    if weights := weights_file(written[0]):
        say(f"{weights}: {file_size(weights.stat().st_size)}, weights")
    labels = written[0].with_name(LABELS)
    say(f"{labels}: {file_size(labels.stat().st_size)}, domains, classes and image preparation")
    tell(f"Opset {OPSET}. Checked with ONNX Runtime {onnxruntime.__version__}: {promise(predictor.bundle)}.")


def card(
    model: ModelFile,
    out: Annotated[Path | None, typer.Option(help="Write the card to this file instead of printing it.")] = None,
) -> None:
    """Describe a model file as a model card in Markdown.

    Example: prunus card model.prunus --out CARD.md
    """
    text = prunus.card(model, out)
    say(*[f"{out}: model card of {model}"] if out else text.removesuffix("\n").split("\n"))
