"""A model card: what a model file is, can do and cannot do, in Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prunus.report.tables import megabytes, percent

MOST_CLASSES, LONGEST = 6, 40  # class names of a domain that are shown, and characters of one
SAFE = set(" ,.-()'")


@dataclass(frozen=True)
class CardDomain:
    """One domain of a model file; `preprocess` says how its images are prepared."""

    name: str
    classes: Sequence[str]
    usage: float
    macs: int
    preprocess: str


@dataclass(frozen=True)
class Card:
    """What a model file says about itself.

    Args:
        union: share of the kernels that any domain uses.
        versions: name -> version of what made the file.
        recipe: dotted key -> JSON value.
    """

    file: str
    backbone: str
    domains: Sequence[CardDomain]
    union: float
    dense_macs: int
    dtype: str
    file_bytes: int
    dense_bytes: int
    versions: Mapping[str, str]
    steps: tuple[int, int]
    recipe: Mapping[str, str]


def card_text(card: Card) -> str:
    """Write the card; names of users are shown as they are and mean nothing to Markdown."""
    parts = (_head, _domains, _preparation, _running, _provenance, _limits)
    return "\n\n".join(part(card) for part in parts) + "\n"


def escape(text: str) -> str:
    """Write a text so that Markdown, also inside a table, shows it as it is."""
    shown = " ".join(re.sub(r"[^\S ]|[\x00-\x1f\x7f]", " ", text).split())
    plain = (each.isalnum() or not each.isascii() or each in SAFE for each in shown)
    escaped = "".join(each if is_plain else f"\\{each}" for each, is_plain in zip(shown, plain, strict=True))
    return re.sub(r"(?i)(www)\.", r"\1\\.", escaped)  # GitHub makes links of addresses without being asked


def fence(kind: str, text: str) -> str:
    """Put a text into a code block that nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{kind}\n{text}\n{ticks}"


def _head(card: Card) -> str:
    usages = [domain.usage for domain in card.domains]
    macs = sum(domain.macs for domain in card.domains) / len(card.domains)
    rows = [
        (f"bytes on disk, {card.dtype}", megabytes(card.file_bytes), f"{megabytes(card.dense_bytes)}, no classifiers"),
        ("2-D kernels kept, for all domains", percent(card.union), "100 %"),
        ("2-D kernels that a domain uses, mean", percent(sum(usages) / len(usages)), "100 %"),
        ("2-D kernels that a domain uses, largest", percent(max(usages)), "100 %"),
        (
            "multiply-accumulates per image, mean",
            f"{macs / 1e6:,.1f} M ({percent(macs / card.dense_macs)})",
            f"{card.dense_macs / 1e6:,.1f} M",
        ),
    ]
    count = f"{len(card.domains)} domain{'s' * (len(card.domains) > 1)}"
    return (
        f"# {escape(card.file)}\n\nOne image classifier for {count}, pruned with Prunus from the backbone "
        f"{escape(card.backbone)}: it keeps only the convolution kernels that some domain uses, and every domain runs "
        f"with its own part of them.\n\n{_table(('', 'this model', 'dense backbone'), rows)}"
    )


def _domains(card: Card) -> str:
    rows = [
        (
            escape(domain.name),
            str(len(domain.classes)),
            percent(domain.usage),
            percent(domain.macs / card.dense_macs),
            _first(domain.classes),
        )
        for domain in card.domains
    ]
    return f"## Domains\n\n{_table(('domain', 'classes', 'kernels used', 'MACs', 'which'), rows, last='---')}"


def _preparation(card: Card) -> str:
    by_text: dict[str, list[str]] = {}
    for domain in card.domains:
        by_text.setdefault(domain.preprocess, []).append(escape(domain.name))
    whole = len(by_text) == 1
    lines = [f"- {'all domains' if whole else ', '.join(names)}: {text}" for text, names in by_text.items()]
    return "## Images\n\nRGB images of any size; `prunus predict` and `Predictor` prepare them:\n\n" + "\n".join(lines)


def _running(card: Card) -> str:
    file, domain = card.file, card.domains[0].name
    shell = f"pip install prunus\nprunus predict {shlex.quote(file)} IMAGE --domain {shlex.quote(domain)}"
    python = (
        f"from prunus import Predictor\n\npredictor = Predictor({file!r})\n"
        f"print(predictor.predict('image.jpg', domain={domain!r})[0])"
    )
    return f"## Run it\n\nNo PyTorch is needed.\n\n{fence('sh', shell)}\n\n{fence('python', python)}"


def _provenance(card: Card) -> str:
    made = ", ".join(f"{escape(name)} {escape(version)}" for name, version in card.versions.items())
    recipe = "\n".join(f"{key} = {value}" for key, value in card.recipe.items())
    return (
        f"## Where it comes from\n\n- made with: {made or 'not said'}\n- training: step {card.steps[0]} of "
        f"{card.steps[1]}\n- recipe, defaults filled in:\n\n{fence('text', recipe)}"
    )


def _limits(card: Card) -> str:
    lines = [
        "The caller says which domain an image belongs to; the model cannot tell.",
        "Every image gets one of the domain's classes, also one that shows none of them, and the probabilities are not "
        "calibrated.",
        "How often it is right is not in the file: measure it on images of your own with `prunus evaluate "
        "MODEL --data DIR`.",
        "The licences of the backbone and of the images it was trained on are not in the file either.",
    ]
    if card.steps[0] < card.steps[1]:
        lines.insert(0, "**Its training was not finished when the file was made.**")
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)


def _first(classes: Sequence[str]) -> str:
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in classes[:MOST_CLASSES]]
    more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
    return ", ".join(map(escape, shown)) + more


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], last: str = "---:") -> str:
    ruler = ["---", *("---:" for _ in header[2:]), last]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ruler, *rows])
