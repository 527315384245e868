"""Measure how much faster an epoch is read from the cache than by decoding JPEGs.

    python -m benchmarks.cache_speed [--images 4000] [--side 72] [--json FILE]

The demo images are written as JPEGs of the Visual Decathlon's size. Then one shuffled epoch in batches of 32 is read in
both ways, in turns, and the medians are compared.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from prunus.config import DomainChoice
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.data.sources import ZipSource, open_source
from prunus.images import Preprocess, read_image
from prunus.samples import demo_names
from prunus.timing.machine import describe_machine

BATCH = 32
ROUNDS = 5


def write_domain(folder: Path, count: int, side: int) -> None:
    names = [(source, name) for source in map(open_demo, demo_names()) for name in source.names() if "train/" in name]
    for index in range(count):
        source, name = names[index % len(names)]
        image = read_image(source.read(name)).resize((side, side))
        path = folder / "train" / f"class{index % 10}" / f"{index:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        image.save(content, "JPEG", quality=90)
        path.write_bytes(content.getvalue())


def open_demo(name: str) -> ZipSource:
    source = open_source(f"demo:{name}")
    assert isinstance(source, ZipSource)
    return source


def read_epoch(
    images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], order: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> int:
    """Copy every image into a batch, as training does; the sum makes sure that the work is done."""
    return sum(
        int(np.asarray(images[order[start : start + BATCH]])[0, 0, 0, 0]) for start in range(0, len(order), BATCH)
    )


def measure(count: int, side: int) -> dict[str, float]:
    preprocess = Preprocess(size=side * 8 // 9, resize=side, mean=(0, 0, 0), std=(1, 1, 1))
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name) / "domain", Path(name) / "cache"
        write_domain(folder, count, side)
        domain = open_domain(DomainChoice(name="d", path=str(folder)), 0.01)
        began = time.perf_counter()
        load_images(domain, "train", preprocess, False, cache)
        making = time.perf_counter() - began
        decoding, reading = [], []
        order = np.random.default_rng(0).permutation(len(domain.train))
        for _ in range(ROUNDS):
            began = time.perf_counter()
            read_epoch(load_images(domain, "train", preprocess, False, None).images, order)
            decoding.append(time.perf_counter() - began)
            began = time.perf_counter()
            read_epoch(load_images(domain, "train", preprocess, False, cache).images, order)
            reading.append(time.perf_counter() - began)
        found = {"images": len(order), "side": side, "making_s": making}
        found |= {"decoding_s": statistics.median(decoding), "reading_s": statistics.median(reading)}
        return found | {"ratio": found["decoding_s"] / found["reading_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--side", type=int, default=72)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.images, arguments.side)
    table = Table(
        title=f"one epoch of {found['images']} JPEGs of {found['side']} px, median of {ROUNDS}; {describe_machine()}"
    )
    for column in ("way", "seconds", "images/s", "faster"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, seconds in (("decoding every time", found["decoding_s"]), ("from the cache", found["reading_s"])):
        rate = found["images"] / seconds
        table.add_row(way, f"{seconds:.3f}", f"{rate:,.0f}", f"{found['decoding_s'] / seconds:.1f} x")
    Console(width=110).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(found | {"machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
