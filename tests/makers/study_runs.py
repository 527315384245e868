"""Made-up runs of the study."""

from collections.abc import Sequence

from benchmarks.study_grid import GRID
from benchmarks.study_results import StudyRun

NINE_IMAGES = {"dtd": 20, "flowers": 102, "person": 60, "gtsrb": 430, "cub": 600}  # some of the nine domains
DEMO_IMAGES = {"characters": 800, "clothing": 800, "fashion": 800, "fruits": 750, "signs": 800}


def made(name: str, seed: int = 0, **values: object) -> StudyRun:
    """Make up a run of the domains that have `train_images`; accuracies are the same in all of them unless told."""
    row = GRID[name]
    accuracy = values.pop("accuracy", 0.7)
    images = values.pop("train_images", NINE_IMAGES)
    assert isinstance(images, dict)
    names = tuple(images)
    content = {
        "name": name,
        "seed": seed,
        "split": row.split,
        "method": row.method,
        "budget": row.budget,
        "recipe": {"training": {"epochs": 20}},
        "versions": {"torch": "2"},
        "machine": "made up",
        "seconds": 1.0,
        "measuring_seconds": 0.0,
        "train_images": images,
        "images": dict.fromkeys(names, 100),
        "accuracies": dict.fromkeys(names, accuracy),
        "mean_accuracy": accuracy,
        "usage": dict.fromkeys(names, 0.2),
        "domain_macs_ratio": dict.fromkeys(names, values.get("macs_ratio", 0.2)),
        **dict.fromkeys(("union", "intersection", "sparsity", "macs_ratio"), 0.2),
        **dict.fromkeys(("params_ratio", "params_ratio_with_source"), 1.0),
        **dict.fromkeys(("stored_bytes", "model_bytes", "dense_bytes"), 1000),
        "budget_kept": True,
    }
    return StudyRun.model_validate(content | values)


def all_seeds(names: Sequence[str], **values: object) -> dict[tuple[str, int], StudyRun]:
    return {(name, seed): made(name, seed, **values) for name in names for seed in GRID[name].seeds}
