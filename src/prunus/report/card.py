"""A model card: a Markdown text that describes a model file and its limits."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prunus.amounts import plural
from prunus.bundle.bundle import Bundle
from prunus.images import Preprocess
from prunus.measure.cost import CostReport
from prunus.measure.eight_bits.summary import eight_bits_of
from prunus.names import marked, shown, shown_lines
from prunus.report.recipe import shown_recipe
from prunus.report.tables import file_size, percent

MOST_CLASSES = 6  # class names shown of a domain
LONGEST = 40  # characters shown of a class name
SAFE = set(" ,.-()'")
VERSIONS = ("prunus", "torch", "backbone_sha256")  # of a file's provenance
FITS = {"crop": "resize the shorter side", "squash": "resize both sides"}


@dataclass(frozen=True)
class Card:
    """A model file and its costs."""

    file: str
    file_bytes: int
    bundle: Bundle
    costs: CostReport


def card_text(card: Card) -> str:
    """Write the card; names from the file are escaped for Markdown."""
    parts = (_head, _domains, _images, _usage, _origin, _limits)
    return "\n\n".join(part(card) for part in parts) + "\n"


def escape(text: str) -> str:
    """Escape a text for Markdown, inside tables too."""
    escaped = "".join(
        character if character.isalnum() or not character.isascii() or character in SAFE else f"\\{character}"
        for character in shown(" ".join(text.split()))
    )
    return re.sub(r"(?i)(www)\.", r"\1\\.", escaped)  # GitHub turns bare addresses into links


def fence(kind: str, text: str) -> str:
    """Put a text into a code block that the text itself cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{kind}\n{shown_lines(text)}\n{ticks}"


def _head(card: Card) -> str:
    costs = card.costs
    manifest = card.bundle.manifest
    usages = [costs.usage(name) for name in costs.domains]
    macs = costs.mean_macs_ratio()
    dense_macs = costs.dense_macs() / 1e6
    rows = [
        (
            f"bytes on disk, {card.bundle.dtype}",
            file_size(card.file_bytes),
            f"{file_size(manifest.dense_bytes)}, no classifiers",
        ),
        ("kernels kept for all domains", percent(costs.union()), "100 %"),
        ("kernels used by a domain, mean", percent(sum(usages) / len(usages)), "100 %"),
        ("kernels used by a domain, largest", percent(max(usages)), "100 %"),
        (
            "multiply-accumulates per image, mean",
            f"{macs * dense_macs:,.1f} M ({percent(macs)})",
            f"{dense_macs:,.1f} M",
        ),
    ]
    eight_bits = eight_bits_of(card.bundle)
    said = [*eight_bits.in_words(), *eight_bits.notes()] if eight_bits else []
    note = "\n\n" + " ".join(f"{escape(_sentence(line))}." for line in said) if said else ""
    return (
        f"# {escape(card.file)}\n\nAn image classifier for {plural(len(usages), 'domain')}, pruned with Prunus from "
        f"the backbone {escape(manifest.backbone)}. The file keeps only the convolution kernels that any domain uses; "
        f"each domain runs its own subset of them.\n\n{_table(('', 'this model', 'dense backbone'), rows)}{note}"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _domains(card: Card) -> str:
    source = card.bundle.manifest.source
    rows = [
        (
            marked(escape(name), source and escape(source)),
            str(len(entry.classes)),
            percent(card.costs.usage(name)),
            percent(card.costs.macs_ratio(name)),
            _first(entry.classes),
        )
        for name, entry in card.bundle.manifest.domains.items()
    ]
    note = (
        f"\n\nThe backbone was pretrained on {escape(source)}, the source. It is one of the domains, pruned like the "
        "others, so the unpruned backbone is not needed for it."
        if source
        else ""
    )
    table = _table(("domain", "classes", "kernels used", "MACs", "class names"), rows, last="---")
    return f"## Domains\n\n{table}{note}"


def _images(card: Card) -> str:
    names_by_text: dict[str, list[str]] = {}
    for name, entry in card.bundle.manifest.domains.items():
        names_by_text.setdefault(_preprocessing(entry.preprocess), []).append(escape(name))
    same = len(names_by_text) == 1
    lines = [f"- {'all domains' if same else ', '.join(names)}: {text}" for text, names in names_by_text.items()]
    intro = "RGB images of any size. `prunus predict` and `Predictor` prepare them:"
    return f"## Images\n\n{intro}\n\n" + "\n".join(lines)


def _preprocessing(preprocess: Preprocess) -> str:
    mean = ", ".join(f"{value:.4g}" for value in preprocess.mean)
    std = ", ".join(f"{value:.4g}" for value in preprocess.std)
    return (
        f"{FITS[preprocess.fit]} to {preprocess.resize} pixels, crop the central {preprocess.size} x {preprocess.size} "
        f"pixels, scale to 0..1, subtract the mean ({mean}), divide by the standard deviation ({std})"
    )


def _usage(card: Card) -> str:
    domain = card.bundle.domains[0]
    shell = f"pip install prunus\nprunus predict {shlex.quote(card.file)} IMAGE --domain {shlex.quote(domain)}"
    python = (
        f"from prunus import Predictor\n\npredictor = Predictor({card.file!r})\n"
        f"print(predictor.predict('image.jpg', domain={domain!r})[0])"
    )
    return f"## How to run it\n\nPyTorch is not needed.\n\n{fence('sh', shell)}\n\n{fence('python', python)}"


def _origin(card: Card) -> str:
    origin = card.bundle.manifest.provenance
    versions = ", ".join(f"{escape(name)} {escape(str(origin[name]))}" for name in VERSIONS if name in origin)
    recipe = "\n".join(f"{key} = {value}" for key, value in shown_recipe(origin.get("recipe")).items())
    return (
        f"## Origin\n\n- made with: {versions or 'not recorded'}\n"
        f"- training: step {_count(card, 'step')} of {_count(card, 'total_steps')}\n{_added(card)}"
        f"- recipe with all defaults:\n\n{fence('text', recipe)}"
    )


def _added(card: Card) -> str:
    """Return a line for each domain that was added after the file was first written."""
    added = card.bundle.manifest.provenance.get("added")
    lines = ""
    for name, entry in added.items() if isinstance(added, dict) else ():
        details = entry if isinstance(entry, dict) else {}
        grown = f", with {details['grown']:.3g} of the kernels more" if isinstance(details.get("grown"), float) else ""
        lines += f"- added later: {escape(str(name))}, in {escape(str(details.get('total_steps', 0)))} steps{grown}\n"
    return lines


def _limits(card: Card) -> str:
    lines = [
        "The caller has to name the domain of an image; the model does not detect it.",
        "Every image is assigned one of the domain's classes, even if it shows none of them. The probabilities are not "
        "calibrated.",
        "The file does not contain its accuracy. Measure it on your images with `prunus evaluate MODEL --data DIR`.",
        "The file does not contain the licences of the backbone and of the training images.",
    ]
    if _count(card, "step") < _count(card, "total_steps"):
        lines.insert(0, "**The training run was not finished when the file was made.**")
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)


def _count(card: Card, key: str) -> int:
    """Return a number of the file's provenance; 0 if it is not recorded."""
    value = card.bundle.manifest.provenance.get(key)
    return value if isinstance(value, int) else 0


def _first(classes: Sequence[str]) -> str:
    first = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in classes[:MOST_CLASSES]]
    more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
    return ", ".join(map(escape, first)) + more


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], last: str = "---:") -> str:
    ruler = ["---", *("---:" for _ in header[2:]), last]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ruler, *rows])
