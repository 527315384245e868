"""Example images of the page, read once at startup."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.config import DEMO_PREFIX
from prunus.errors import DataError
from prunus.images import read_image
from prunus.reading import DAMAGE, read_file, read_member
from prunus.samples import bundled

MAX_EXAMPLES = 8  # per domain
MAX_BYTES = 4_000_000  # per image: it stays in memory and is sent to every visitor
MEDIA_TYPES = {  # formats that browsers show; other files in a folder are ignored
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
}


@dataclass(frozen=True)
class Example:
    """An example image of a domain."""

    name: str
    content: bytes
    media_type: str


Examples = dict[str, list[Example]]  # domain -> its images


def read_examples(source: str | Path, domains: Sequence[str]) -> Examples:
    """Read a folder `<domain>/<image>`, or `demo:` for images of the bundled domains."""
    read = _bundled if str(source) == DEMO_PREFIX else _in_folder
    examples = {domain: [_example(*image) for image in read(str(source), domain)] for domain in domains}
    if not any(examples.values()):
        raise DataError(
            f"{source} contains no example images; put them into folders named after the domains of the model: "
            f"{', '.join(f'{domain}/<image>' for domain in domains[:3])}"
        )
    return examples


def _in_folder(source: str, domain: str) -> Iterator[tuple[str, str, bytes]]:
    folder = Path(source)
    if not folder.is_dir():
        raise DataError(f"the folder of examples {folder} does not exist")
    inside = (folder / domain).iterdir() if (folder / domain).is_dir() else iter(())
    for path in sorted(path for path in inside if path.suffix.lower() in MEDIA_TYPES)[:MAX_EXAMPLES]:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"the example {path} has {path.stat().st_size:,} bytes; at most {MAX_BYTES:,} are allowed")
        try:
            yield path.stem, path.suffix, read_file(path, MAX_BYTES)
        except OSError as error:
            raise DataError(f"cannot read the example {path}: {error.strerror or error}") from None


def _bundled(source: str, domain: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield the first test image of several classes."""
    path = bundled("domains") / f"{domain}.zip"
    if not path.is_file():
        return
    with zipfile.ZipFile(path) as file:
        first: dict[str, str] = {}
        for name in sorted(file.namelist()):
            split, _, rest = name.partition("/")
            label, _, image = rest.partition("/")
            if split == "test" and image:
                first.setdefault(label, name)
        for label, name in list(first.items())[:MAX_EXAMPLES]:
            try:
                yield label, Path(name).suffix, read_member(file, file.getinfo(name), MAX_BYTES)
            except DAMAGE as error:
                raise DataError(f"cannot read the example {name} in {path}: {error}") from None


def _example(name: str, suffix: str, content: bytes) -> Example:
    read_image(content, f"the example {name!r}")  # fail at startup instead of showing a broken page
    return Example(name, content, MEDIA_TYPES[suffix.lower()])
