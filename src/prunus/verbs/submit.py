"""Answer the Visual Decathlon's test images and write the file that the challenge takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prunus.benchmarks import DECATHLON
from prunus.config import Crops
from prunus.data.coco import refuse_repeated
from prunus.data.decathlon import category_id
from prunus.data.submissions import write_results
from prunus.errors import RecipeError
from prunus.verbs.evaluate import classify_domains, open_subject


@dataclass(frozen=True)
class Submission:
    """What was written, and which sets it lacks."""

    path: Path
    images: dict[str, int]
    missing: tuple[str, ...]


def submit(
    target: str | Path,
    out: str | Path,
    data: str | Path | None = None,
    crops: Crops | None = None,
    device: str = "auto",
    use_cache: bool = True,
) -> Submission:
    """Classify the test images of every set of a run or model file and write a zipped results.json."""
    subject = open_subject(Path(target), device)
    if subject.recipe.benchmark != DECATHLON.name:
        raise RecipeError(f'{target} was not trained with benchmark = "decathlon", so its answers have no image ids')
    answers: dict[int, int] = {}
    images: dict[str, int] = {}
    for choice, labels, stored, _ in classify_domains(subject, "test", data, crops, use_cache, True):
        number = DECATHLON.find(choice.name).number
        images[choice.name] = len(stored)
        refuse_repeated([*answers, *stored.image_ids], f"test image ids of {choice.name} and the sets before it")
        pairs = zip(stored.image_ids, labels.tolist(), strict=True)
        answers |= {image: category_id(number, label) for image, label in pairs}
    write_results(Path(out), answers)
    return Submission(Path(out), images, tuple(name for name in DECATHLON.names() if name not in images))
