"""Write a commented recipe for the domains that were found."""

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prunus.config import DEMO_PREFIX
from prunus.drafting.survey import FoundDomain, Survey
from prunus.names import is_unseen, is_utf8, shown
from prunus.training.settling import choose_epochs

COMMENT_AT = 34  # column of the comments
SMALL_SIDE = 48  # pixels: smaller images lose little at 32 pixels
BACKBONES = {"wrn14_2": 32, "wrn28_4": 64}  # the bundled ones and their input
WHY = {
    "small": "the images are small",
    "cpu": "no GPU was found",
    "gpu": "the images are large and there is a GPU",
    "asked": "as asked",
}
Line = tuple[str, str]  # a key with its value, and the comment


@dataclass(frozen=True)
class Choices:
    """What the recipe sets, as far as it depends on what was found."""

    backbone: str
    why: str
    epochs: int
    splits: str
    class_weights: str


def choose(survey: Survey, backbone: str | None = None) -> Choices:
    """Choose the settings that fit the images and the machine."""
    domains = survey.domains
    # with test images in every domain, nothing is left to measure on validation images
    splits = "train+validation" if all(domain.images["test"] for domain in domains) else "train"
    images = sum(domain.images[split] for domain in domains for split in splits.split("+"))
    is_small = max(domain.side for domain in domains) < SMALL_SIDE
    why = "asked" if backbone else "small" if is_small else "gpu" if _has_gpu() else "cpu"
    return Choices(
        backbone or ("wrn28_4" if why == "gpu" else "wrn14_2"),
        WHY[why],
        choose_epochs(images),
        splits,
        "balanced" if any(domain.is_uneven for domain in domains) else "equal",
    )


def write_draft(survey: Survey, choices: Choices, out: Path) -> str:
    """Return the text of a recipe that lies at `out`."""
    lines = [*_heading(survey, out), "", *_settings(choices), ""]
    for domain in survey.domains:
        lines += [*_domain(domain, out), ""]
    return "\n".join(lines)


def next_commands(survey: Survey, out: Path) -> list[str]:
    """Return the commands to type next, in their order."""
    recipe = shlex.quote(str(out))
    example = next((domain for domain in survey.domains if domain.example), survey.domains[0])
    image = shlex.quote(example.example or "IMAGE")
    return [
        f"prunus check {recipe}",
        f"prunus plan {recipe}",
        f"prunus train {recipe} --out runs/first",
        "prunus evaluate runs/first",
        "prunus report runs/first",
        "prunus prune runs/first --out model.prunus",
        f"prunus predict model.prunus {image} --domain {example.name}",
    ]


def _heading(survey: Survey, out: Path) -> Iterator[str]:
    yield "# A recipe for your images, written by prunus init. Change what you like; docs/recipes.md lists every key."
    yield "#"
    yield "# What was found:"
    for domain in survey.domains:
        counts = ", ".join(f"{number:,} {split}" for split, number in domain.images.items())
        yield f"#   {domain.name}: {domain.classes} classes; {counts}; {shown(domain.layout)}"
    yield from (f"#   left out: {shown(reason)}" for reason in survey.left_out)
    yield "#"
    yield "# Next:"
    yield from (f"#   {shown(command)}" for command in next_commands(survey, out))


def _settings(choices: Choices) -> Iterator[str]:
    size = BACKBONES.get(choices.backbone)
    other = "wrn28_4" if choices.backbone == "wrn14_2" else "wrn14_2"
    than = "more accurate on photographs, 34 times the computation" if other == "wrn28_4" else "1/34 of the computation"
    yield from _aligned(
        ('method = "exact"', "keeps the budget exactly; prunus methods lists others"),
        ("budget = 0.25", 'share of the kernels to keep; or limits such as { bytes = "1 MB", macs = "20 M" }'),
        ('dtype = "float32"', '"float16" halves the model file'),
        ("seed = 0", "another seed trains another model from the same images"),
        ("skip_bad_images = true", "unreadable images are skipped and counted; false: they stop the training run"),
        ('# teacher = "finetune"', "first trains a network per domain to learn from: more accurate, takes longer"),
    )
    yield from ("", "[backbone]")
    yield from _aligned(
        (f"name = {_text(choices.backbone)}", f"{choices.why}; {other}: {than}; prunus zoo lists others"),
        (f"# size = {size or 224}", "input pixels (default: the network's); more show more and take longer"),
    )
    yield from ("", "[training]")
    yield from _aligned(
        (f"epochs = {choices.epochs}", "passes over all images; try 2 for a first look"),
        ("batch_size = 32", "images of one step; less if memory is short"),
        (f"splits = {_text(choices.splits)}", _about_splits(choices.splits)),
        (f"class_weights = {_text(choices.class_weights)}", '"balanced": classes with few images count more'),
        ("augment = []", 'such as ["rand_augment"], if there are few images and many epochs'),
    )


def _about_splits(splits: str) -> str:
    if splits == "train":
        return '"train+validation" trains on all but test images; now validation images measure every domain'
    return '"train" holds out a tenth, or your validation images, to watch the accuracy while training'


def _domain(domain: FoundDomain, out: Path) -> Iterator[str]:
    yield "[[domains]]"
    is_renamed = domain.folder not in (domain.name, f"{domain.name}.zip") and not domain.path.startswith(DEMO_PREFIX)
    lines: list[Line] = [
        (f"name = {_text(domain.name)}", f"made from {domain.folder!r}" if is_renamed else "in commands and results"),
        (f"path = {_text(_from_recipe(domain.path, out))}", "folder or zip file, relative to this file"),
        (f"mirror = {'true' if domain.mirrors else 'false'}", "train on mirrored images too; false for text and signs"),
        ('fit = "crop"', 'the centre square; "squash" keeps everything and distorts it'),
    ]
    if not domain.has_splits:
        lines += [
            ("test_share = 0.2", "held out of every class for the test"),
            ("split_seed = 0", "another number holds out other images"),
        ]
    yield from _aligned(*lines)


def _aligned(*lines: Line) -> Iterator[str]:
    return (f"{key:<{COMMENT_AT - 2}}  # {shown(comment)}" for key, comment in lines)


def _text(text: str) -> str:
    """Write a text as a TOML string; what could not be seen becomes escapes."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\U{ord(letter):08X}" if is_unseen(letter) and is_utf8(letter) else letter for letter in quoted)


def _from_recipe(path: str, out: Path) -> str:
    """Write a path relative to the recipe, unless that leads far up."""
    if path.startswith(DEMO_PREFIX):
        return path
    absolute = Path(path).absolute()
    try:
        relative = Path(os.path.relpath(absolute, out.parent.absolute())).as_posix()
    except ValueError:  # another drive
        return str(absolute)
    return str(absolute) if relative.startswith("../..") else relative


def _has_gpu() -> bool:
    """Return whether the driver of an NVIDIA GPU is installed; to ask torch would take seconds."""
    return shutil.which("nvidia-smi") is not None
