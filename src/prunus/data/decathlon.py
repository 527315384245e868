"""The Visual Decathlon as its users have it: COCO-style annotations beside folders of images.

    <root>/annotations/<set>_{train,val,test_stripped}.json   images, annotations, categories: joined on image_id
    <root>/data/<set>/{train,val,test}/...                     test is flat and unlabelled

The category ids of set k are k * 10^7 + label, the labels counted from 1. Where the test labels, public since 2020,
have been put beside as <set>_test.json, the test split has labels too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prunus.benchmarks import DECATHLON
from prunus.data.domains import UNLABELLED, Domain, Item
from prunus.data.sources import FolderSource, describe_folder
from prunus.errors import DataError

ID_STEP = 10**7
SPLIT_FILES = {"train": ("train",), "validation": ("val",), "test": ("test", "test_stripped")}


def open_decathlon_set(root: Path, name: str) -> Domain:
    """Read one of the ten sets: every image with the label that its own id has, in the order of the ids."""
    check_root(root)
    number = DECATHLON.find(name).number
    categories: dict[int, str] = {}
    splits: dict[str, tuple[Item, ...]] = {}
    for split, endings in SPLIT_FILES.items():
        file = next((f for f in (annotation_file(root, name, e) for e in endings) if f.exists()), None)
        if file is None:
            missing = annotation_file(root, name, endings[-1])
            raise DataError(f"the annotation file {missing} is missing; {describe_folder(root / 'annotations')}")
        content = read_annotations(file)
        categories |= {category["id"]: str(category["name"]) for category in content.get("categories", [])}
        splits[split] = _items(root, file, content, number, labelled=split != "test")
    classes = _classes(name, number, categories, splits["train"])
    _check_labels(root, name, splits, len(classes))
    return Domain(name, classes, splits["train"], splits["validation"], splits["test"], FolderSource(root))


def check_root(root: Path) -> None:
    """Refuse a folder that is not the benchmark's."""
    wanted = [folder for folder in ("annotations", "data") if not (root / folder).is_dir()]
    if wanted:
        raise DataError(
            f"{root} is not a decathlon-1.0 folder: looked for {' and '.join(wanted)} in it; {describe_folder(root)}"
        )


def annotation_file(root: Path, name: str, ending: str) -> Path:
    """Name an annotation file."""
    return root / "annotations" / f"{name}_{ending}.json"


def read_annotations(file: Path) -> dict[str, Any]:
    """Read a COCO-style file, checking its form and that no id comes twice."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"cannot read the annotations {file}: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise DataError(f"{file} is not a COCO-style annotation file: it has no list 'images'")
    for key, field in (("images", "id"), ("annotations", "image_id")):
        try:
            ids = Counter(int(entry[field]) for entry in content.get(key) or [])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{file}: every entry of {key!r} needs a number {field!r}") from None
        twice = [str(each) for each, count in ids.items() if count > 1]
        if twice:
            raise DataError(f"{file}: {len(twice)} ids of {key!r} come more than once: {', '.join(twice[:3])}")
    return content


def category_id(number: int, label: int) -> int:
    """Give the id of a class, counted from 0, in set `number`."""
    return number * ID_STEP + label + 1


def _items(root: Path, file: Path, content: dict[str, Any], number: int, labelled: bool) -> tuple[Item, ...]:
    label_of = {
        int(a["image_id"]): int(a["category_id"]) - number * ID_STEP - 1 for a in content.get("annotations") or []
    }
    images = sorted(content["images"], key=lambda image: int(image["id"]))
    lacking = [str(image["id"]) for image in images if int(image["id"]) not in label_of]
    if lacking and (labelled or label_of):
        raise DataError(f"{file}: {len(lacking)} images have no annotation: {', '.join(lacking[:3])}")
    return tuple(
        Item(_locate(root, str(image["file_name"])), label_of.get(int(image["id"]), UNLABELLED), int(image["id"]))
        for image in images
    )


def _locate(root: Path, file_name: str) -> str:
    """Name an image relative to the root; annotations begin at the root, at its parent, or at the folder data."""
    parts = Path(file_name).parts
    if "data" in parts:
        parts = parts[parts.index("data") :]
    elif parts[:1] == (root.name,):
        parts = parts[1:]
    else:
        parts = ("data", *parts)
    return Path(*parts).as_posix()


def _classes(name: str, number: int, categories: dict[int, str], train: Sequence[Item]) -> tuple[str, ...]:
    count = max(item.label for item in train) + 1
    names = [categories.get(category_id(number, label), f"{name} {label + 1}") for label in range(count)]
    doubled = Counter(names)
    return tuple(f"{each} ({label + 1})" if doubled[each] > 1 else each for label, each in enumerate(names))


def _check_labels(root: Path, name: str, splits: dict[str, tuple[Item, ...]], num_classes: int) -> None:
    for split, items in splits.items():
        allowed = range(0 if split == "train" else UNLABELLED, min(num_classes, DECATHLON.find(name).classes))
        wrong = [item for item in items if item.label not in allowed]
        if wrong:
            examples = ", ".join(f"image {item.image_id} has {item.label + 1}" for item in wrong[:3])
            raise DataError(
                f"{len(wrong)} labels of {name} ({split}, {root}) are out of range: {examples}; "
                f"allowed are 1 to {allowed.stop}"
            )
