"""Measure a step of `prunus train`, with everything around it: whole epochs on nine domains of random images.

    python -m benchmarks.epoch_time [--device cuda] [--backbone wrn28_4]

It uses only what older versions have as well, so `benchmarks.train_step --before SRC` can run it in both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import prunus
from prunus.training.observers import Observer

DOMAINS = 9
CLASSES = 8
IMAGES = 512  # of a domain
EPOCHS = 5
SIDE = 72


class Clock(Observer):
    """Notes when epochs end."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.steps = 0

    def started(self, step: int, total_steps: int) -> None:
        self.steps = total_steps

    def epoch_ended(self, report: object) -> None:
        self.ends.append(time.perf_counter())


def write_domains(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for domain in range(DOMAINS):
        for index in range(IMAGES):
            path = folder / f"d{domain}" / "train" / f"class{index % CLASSES}" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(path, compress_level=0)
    return [str(folder / f"d{domain}") for domain in range(DOMAINS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backbone", default="wrn28_4")
    arguments = parser.parse_args()
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        training = {"epochs": EPOCHS, "batch_size": 64, "splits": "train+validation"}
        content: dict[str, object] = {
            "preset": "paper",
            "backbone": {"name": arguments.backbone, "weights": "random"},
            "domains": write_domains(Path(folder)),
            "sharing": {"loss": "union"},
            "training": training,
        }
        run = Path(folder) / "run"
        prunus.train(prunus.parse_recipe(content), run, [clock], arguments.device, use_cache=False)
    epochs = np.diff(clock.ends)[1:]  # the first epochs compile and capture
    print(1000 * statistics.median(epochs.tolist()) * EPOCHS / clock.steps)


if __name__ == "__main__":
    main()
