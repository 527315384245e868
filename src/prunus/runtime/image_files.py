"""Classify image files: find them in folders and patterns, choose their domains, and read them in batches."""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from prunus.errors import DataError
from prunus.images import SUFFIXES, read_image
from prunus.names import domain_name
from prunus.runtime.predictor import Predictor, Result

BATCH = 32  # images that are decoded and classified together
FOREIGN = "__MACOSX"  # what macOS adds to archives: no images


@dataclass(frozen=True)
class FileResult:
    """An image file with its result, or with what is wrong with it."""

    image: Path
    domain: str
    result: Result | None
    error: str | None = None


def find_images(sources: Sequence[Path]) -> list[Path]:
    """List the image files of paths, folders (with everything below) and patterns such as `photos/*.jpg`."""
    return [path for source in sources for path in _images_of(source)]


def _images_of(source: Path) -> list[Path]:
    if source.is_dir():
        found = sorted(path for path in source.rglob("*") if _is_image(path, source))
        if not found:
            raise DataError(f"there are no images in {source}; images end in {', '.join(sorted(SUFFIXES))}")
        return found
    if source.exists() or not glob.has_magic(str(source)):
        return [source]  # one that is missing is reported with the images that cannot be read
    matches = sorted(map(Path, glob.glob(str(source), recursive=True)))  # noqa: PTH207  # also absolute
    if not matches:
        raise DataError(f"there is no image {source}, and no file matches it as a pattern")
    return [image for match in matches for image in (_images_of(match) if match.is_dir() else [match])]


def _is_image(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    is_hidden = any(part.startswith(".") or part == FOREIGN for part in parts)
    return not is_hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def domains_of(images: Sequence[Path], domains: Sequence[str]) -> list[str]:
    """Return the domain of each image: the model's only one, or the one named like the nearest of its folders."""
    if len(domains) == 1:
        return [domains[0]] * len(images)
    known = {_plain(domain): domain for domain in domains}
    chosen = [_domain_of(image, known) for image in images]
    unknown = [image for image, domain in zip(images, chosen, strict=True) if domain is None]
    if unknown:
        raise DataError(
            f"the domain of {unknown[0]} is not known, because none of its folders is named like a domain; "
            f"choose one of {', '.join(domains)} with the argument domain"
        )
    return [domain for domain in chosen if domain is not None]


def _domain_of(image: Path, known: Mapping[str, str]) -> str | None:
    folders = [known.get(_plain(folder.name)) for folder in image.absolute().parents]
    return next((domain for domain in folders if domain is not None), None)


def _plain(name: str) -> str:
    """Return a name without what is lost between the name of a folder and that of a domain."""
    return re.sub(r"[\W_]+", "", domain_name(name).casefold()) or name


def predict_files(
    predictor: Predictor, images: Sequence[Path], domains: Sequence[str], top: int = 5
) -> Iterator[FileResult]:
    """Yield the result of each file in order; one that cannot be read has an error and does not stop the others."""
    files = list(zip(images, domains, strict=True))
    with ThreadPoolExecutor() as pool:  # Pillow decodes without the interpreter's lock
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            decoded = list(pool.map(_decode, (file for file, _ in batch)))
            readable = [index for index, image in enumerate(decoded) if not isinstance(image, str)]
            names = [batch[index][1] for index in readable]
            results = predictor.predict([decoded[index] for index in readable], names, top)
            result_of = dict(zip(readable, results, strict=True))
            for index, (file, domain) in enumerate(batch):
                error = decoded[index]
                yield FileResult(file, domain, result_of.get(index), error if isinstance(error, str) else None)


def _decode(path: Path) -> Image.Image | str:
    """Return an image, or why it cannot be read."""
    try:
        return read_image(path)
    except DataError as error:
        return str(error)
