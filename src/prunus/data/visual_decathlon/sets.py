"""The Visual Decathlon as it is distributed: COCO-style annotations beside folders of images.

    <root>/annotations/<set>_{train,val,test_stripped}.json   images, annotations, categories: joined on image_id
    <root>/data/<set>/{train,val,test}/...                     test is flat and unlabelled

The category ids of set k are k * 10^7 + label, with labels counted from 1. The test split has labels if the file
<set>_test.json, public since 2020, lies beside the others.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from prunus.amounts import plural
from prunus.benchmarks import DECATHLON, BenchmarkSet
from prunus.data.domains import UNLABELLED, Domain, Item
from prunus.data.sources import FolderSource, describe_folder
from prunus.data.visual_decathlon.coco import Annotations, read_annotations
from prunus.errors import DataError
from prunus.names import name_problem

ID_STEP = 10**7
SPLIT_FILES = {"train": ("train",), "validation": ("val",), "test": ("test", "test_stripped")}


def open_decathlon_set(root: Path, name: str) -> Domain:
    """Read one of the ten sets: its images with their labels, in the order of the image ids."""
    check_root(root)
    benchmark_set = DECATHLON.find(name)
    categories: dict[int, str] = {}
    splits: dict[str, tuple[Item, ...]] = {}
    for split, endings in SPLIT_FILES.items():
        file = next((f for f in (annotation_file(root, name, e) for e in endings) if f.exists()), None)
        if file is None:
            missing = annotation_file(root, name, endings[-1])
            raise DataError(f"the annotation file {missing} is missing; {describe_folder(root / 'annotations')}")
        content = read_annotations(file)
        categories |= {category.id: _accepted(file, category.name) for category in content.categories}
        splits[split] = _items(file, content, benchmark_set, labelled=split != "test")
    if not splits["train"]:
        raise DataError(f"{annotation_file(root, name, 'train')} lists no image")
    classes = _classes(benchmark_set, categories, splits["train"])
    return Domain(name, classes, splits["train"], splits["validation"], splits["test"], FolderSource(root))


def check_root(root: Path) -> None:
    """Refuse a folder that is not the benchmark's."""
    missing = " and ".join(folder for folder in ("annotations", "data") if not (root / folder).is_dir())
    if missing:
        raise DataError(f"{root} is not a decathlon-1.0 folder: looked for {missing} in it; {describe_folder(root)}")


def annotation_file(root: Path, name: str, ending: str) -> Path:
    """Return the path of an annotation file."""
    return root / "annotations" / f"{name}_{ending}.json"


def category_id(number: int, label: int) -> int:
    """Return the category id of a class, counted from 0, in set `number`."""
    return number * ID_STEP + label + 1


def _items(file: Path, content: Annotations, benchmark_set: BenchmarkSet, labelled: bool) -> tuple[Item, ...]:
    first = category_id(benchmark_set.number, 0)
    last = category_id(benchmark_set.number, benchmark_set.classes - 1)
    label_of = {answer.image_id: answer.category_id - first for answer in content.annotations}
    wrong = [
        f"image {answer.image_id} has {answer.category_id}"
        for answer in content.annotations
        if not first <= answer.category_id <= last
    ]
    if wrong:
        examples = ", ".join(wrong[:3])
        raise DataError(
            f"{file}: {plural(len(wrong), 'category id is', 'category ids are')} out of range: {examples}; "
            f"expected {first} to {last}"
        )
    images = sorted(content.images, key=lambda image: image.id)
    lacking = [str(image.id) for image in images if image.id not in label_of]
    if lacking and (labelled or label_of):
        raise DataError(
            f"{file}: {plural(len(lacking), 'image has', 'images have')} no annotation: {', '.join(lacking[:3])}"
        )
    strays = sorted(label_of.keys() - {image.id for image in images})
    if strays:
        raise DataError(
            f"{file}: {plural(len(strays), 'annotation has', 'annotations have')} no image: "
            f"{', '.join(map(str, strays[:3]))}"
        )
    return tuple(
        Item(_locate(file, image.file_name, benchmark_set.name), label_of.get(image.id, UNLABELLED), image.id)
        for image in images
    )


def _locate(file: Path, file_name: str, name: str) -> str:
    """Return a path relative to the root; file names begin anywhere above `data/<set>`, or at the set itself."""
    parts = PurePosixPath(file_name).parts
    begin = next((i for i in range(len(parts) - 1) if parts[i : i + 2] == ("data", name)), None)
    inside = parts[begin:] if begin is not None else ("data", *parts) if parts[:1] == (name,) else ()
    if not inside or ".." in inside or "\0" in file_name:
        raise DataError(f"{file}: the file name {file_name!r} is not inside data/{name}")
    if problem := name_problem(file_name):
        raise DataError(f"{file}: the file name {file_name!r} is not accepted: {problem}")
    return PurePosixPath(*inside).as_posix()


def _accepted(file: Path, name: str) -> str:
    if problem := name_problem(name):
        raise DataError(f"{file}: the class {name!r} is not accepted: {problem}")
    return name


def _classes(benchmark_set: BenchmarkSet, categories: dict[int, str], train: Sequence[Item]) -> tuple[str, ...]:
    count = max(item.label for item in train) + 1
    names = [
        categories.get(category_id(benchmark_set.number, label), f"{benchmark_set.name} {label + 1}")
        for label in range(count)
    ]
    uses = Counter(names)
    return tuple(f"{name} ({label + 1})" if uses[name] > 1 else name for label, name in enumerate(names))
