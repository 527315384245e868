"""Classify the Visual Decathlon's test images and write the file that the challenge accepts."""

from dataclasses import dataclass
from pathlib import Path

from prunus.benchmarks import DECATHLON
from prunus.config import Crops
from prunus.data.visual_decathlon.coco import refuse_repeated
from prunus.data.visual_decathlon.sets import category_id
from prunus.data.visual_decathlon.submissions import write_results
from prunus.errors import RecipeError
from prunus.evaluation.classifying import classify_domains
from prunus.evaluation.subject import open_subject
from prunus.verbs.arguments import ModelLike, model_path


@dataclass(frozen=True)
class Submission:
    """The file that was written, its images by set, and the sets that it lacks."""

    path: Path
    images: dict[str, int]
    missing: tuple[str, ...]


def submit(
    target: ModelLike,
    out: str | Path,
    data: str | Path | None = None,
    crops: Crops | None = None,
    device: str = "auto",
    use_cache: bool = True,
) -> Submission:
    """Classify the test images of every set of a run or model file and write a zipped results.json."""
    subject = open_subject(model_path(target), device)
    if subject.recipe.benchmark != DECATHLON.name:
        raise RecipeError(f'{target} was not trained with benchmark = "decathlon", so its images have no ids')
    categories: dict[int, int] = {}
    images: dict[str, int] = {}
    for answers in classify_domains(subject, "test", data, crops, use_cache, unlabelled=True):
        ids = answers.images.image_ids
        number = DECATHLON.find(answers.domain).number
        refuse_repeated([*categories, *ids], f"test image ids of {answers.domain} and the sets before it")
        categories |= {i: category_id(number, label) for i, label in zip(ids, answers.labels.tolist(), strict=True)}
        images[answers.domain] = len(ids)
    write_results(Path(out), categories)
    return Submission(Path(out), images, tuple(name for name in DECATHLON.names() if name not in images))
