"""Commands that use a model file: `predict`, `serve`, `export` and `card`."""

from pathlib import Path
from typing import Annotated

import typer

import prunus
from prunus.cli.options import AsJson, ModelFile
from prunus.cli.output import make_table, say, show, waiting
from prunus.recipes import parse_assignment
from prunus.report.tables import megabytes, percent

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a limit, as in max_upload_mb=4. May be repeated.")
]


def predict(
    model: ModelFile,
    images: Annotated[list[Path], typer.Argument(help="One or more image files.")],
    domain: Annotated[str, typer.Option(help="The domain of the images.")],
    top: Annotated[int, typer.Option(min=1, help="Number of classes to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Classify images with a model file.

    Example: prunus predict model.prunus rose.jpg --domain flowers
    """
    results = list(zip(images, prunus.Predictor(model).predict(images, domain, top), strict=True))
    content = [{"image": image, "domain": domain, "predictions": guesses.predictions} for image, guesses in results]
    tables = (
        make_table(
            ("class", "probability"),
            f"{image} ({domain})",
            rows=((guess.label, percent(guess.probability)) for guess in guesses),
        )
        for image, guesses in results
    )
    show(content, as_json, *tables)


def serve(
    model: ModelFile,
    host: Annotated[
        str | None, typer.Option(help="Address; 0.0.0.0 listens on all interfaces.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8000")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name to answer to. May be repeated.")
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
    onnx: Annotated[Path, typer.Option(help="Folder for the ONNX models.")],
    single: Annotated[
        bool, typer.Option("--single", help="Write one model that takes the domain's number as an input.")
    ] = False,
) -> None:
    """Write ONNX models: one per domain with only the channels it needs, or one for all domains.

    Example: prunus export model.prunus --onnx onnx
    """
    from prunus.onnx.files import TOLERANCE, weights_file
    from prunus.onnx.model import OPSET

    with waiting("exporting and comparing"):
        written = prunus.export(model, onnx, single)
    import onnxruntime  # installed, or the export would have failed

    for path in written:
        say(f"{path}: {megabytes(path.stat().st_size)}")
    if weights := weights_file(written[0]):
        say(f"{weights}: {megabytes(weights.stat().st_size)}, weights")
    say(
        f"Opset {OPSET}. Checked with ONNX Runtime {onnxruntime.__version__}: the logits are those of {model} "
        f"to within {TOLERANCE:g} of the largest."
    )


def card(
    model: ModelFile,
    out: Annotated[Path | None, typer.Option(help="Write the card to this file instead of printing it.")] = None,
) -> None:
    """Describe a model file as a model card in Markdown.

    Example: prunus card model.prunus --out CARD.md
    """
    text = prunus.card(model, out)
    say(*[f"{out}: model card of {model}"] if out else text.removesuffix("\n").split("\n"))
