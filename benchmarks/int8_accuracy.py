"""Compare the accuracy and the size of 8-bit model files with those of float32.

    python -m benchmarks.int8_accuracy [RUN] [--data DIR] [--draws 3] [--images 16,64,256] [--no-rules] [--json FILE]
    python -m benchmarks.int8_accuracy MODEL --recipe FILE ...

RUN is a finished run (default: runs/demo, which `make demo` trains), MODEL a float32 file of a run that is no longer
here, and FILE its recipe.

The first table compares the rules that choose codings, with all operations in integers: by how much the mean accuracy
over domains on the test images changes, the largest loss of a domain in any draw, and the squared error of the logits
relative to their variance. The second table has the files that `prunus prune --dtype int8` would write, with other
calibration images in every draw. The command fails if their mean over domains loses more than 0.3 points in the mean of
the draws, a domain more than 1, or if a file has more than 0.34 of the bytes of the float32 one.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.bounds import MOST_LOSS, MOST_MEAN_LOSS, Losses
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import bundle_size, read_bundle
from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.errors import PrunusError
from prunus.evaluation.classifying import locate
from prunus.evaluation.packing import pack_run
from prunus.images import crop_windows
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.quantizing.images import Draw, Drawn, Pictures
from prunus.quantizing.judging import Judge
from prunus.quantizing.quantize import Settings, quantize
from prunus.quantizing.ranges import RULES as RANGES
from prunus.quantizing.run_images import draw_run_images
from prunus.quantizing.weights import RULES as WEIGHTS
from prunus.recipes import load_recipe
from prunus.timing.machine import describe_machine, usable_processors
from prunus.training.run import open_run

MOST_SHARE = 0.34  # of the bytes of the float32 file
DEFAULT = Settings()


@dataclass(frozen=True)
class Case:
    """A recipe, the bundle of floats that it gave and where the images are."""

    recipe: Recipe
    bundle: Bundle
    data: Path | None

    @cached_property
    def test(self) -> dict[str, Drawn]:
        """Return the test images of every domain."""
        drawn = {}
        for choice in self.recipe.domains:
            preprocess = self.bundle.manifest.domains[choice.name].preprocess
            domain = open_domain(locate(choice, self.data), self.recipe.training.validation_share)
            images = load_images(domain, "test", preprocess)
            (window,) = crop_windows(preprocess.resize, preprocess.size, 1)
            pictures = Pictures(preprocess.crop(images.images, *window), preprocess)
            drawn[choice.name] = Drawn(pictures, pictures, images.labels)
        return drawn

    @cached_property
    def judge(self) -> Judge:
        """Return what measures bundles on the test images."""
        return Judge(self.bundle, self.test, usable_processors(), lambda *_: None)

    def draw(self, draw: Draw) -> dict[str, Drawn]:
        """Draw images of every domain."""
        return draw_run_images(self.recipe, self.bundle.manifest.domains, self.data, draw, lambda *_: None)


def mean_lost(losses: Losses) -> float:
    return mean(loss.lost for loss in losses.values())


def compare_rules(case: Case, counts: list[int], draws: int) -> list[dict[str, Any]]:
    """Measure every rule with every number of calibration images, all operations in integers."""
    rows: list[dict[str, Any]] = []
    for count in counts:
        drawn = [case.draw(Draw(count, held_out=0, seed=seed)) for seed in range(draws)]  # the test images measure
        for ranges, weights, moves in [*product(RANGES, WEIGHTS, [True]), (DEFAULT.ranges, DEFAULT.weights, False)]:
            bundles = []
            for images in drawn:
                calibrating = {name: d.calibration for name, d in images.items()}
                coder = make_coder(case.bundle, calibrate(case.bundle, calibrating, ranges), weights)
                possible = possible_integers(case.bundle)
                bundles.append((coder.corrected(calibrating, possible) if moves else coder).coded(possible))
            losses = [case.judge.losses(bundle) for bundle in bundles]
            row: dict[str, Any] = {"images": count, "ranges": ranges, "weights": weights, "moves_biases": moves}
            row |= {"mean_lost": [mean_lost(loss) for loss in losses]}
            row |= {"most_lost": max(loss.lost for found in losses for loss in found.values())}
            row |= {"logits_error": mean(case.judge.distance(bundle) for bundle in bundles)}
            rows.append(row)
            print(
                f"{count} images, ranges {ranges}, weights {weights}, biases {'moved' if moves else 'kept'}: "
                f"{100 * mean(row['mean_lost']):+.2f}",
                flush=True,
            )
    return rows


def write_files(case: Case, draws: int) -> list[dict[str, Any]]:
    """Make the files of the command's defaults, and measure them on the test images."""
    rows: list[dict[str, Any]] = []
    for seed in range(draws):
        images = case.draw(Draw(seed=seed))
        bundle = quantize(case.bundle, images, Settings(threads=usable_processors()), lambda *_: None)
        losses = case.judge.losses(bundle)
        rows.append(
            {
                "draw": seed,
                "bytes": bundle_size(bundle, "int8"),
                "integers": len(bundle.manifest.integers),
                "operations": len(bundle.manifest.graph),
                "wide": list(bundle.manifest.wide),
                "accuracy": {name: {"float32": loss.floats, "int8": loss.coded} for name, loss in losses.items()},
                "mean_lost": mean_lost(losses),
                "most_lost": max(loss.lost for loss in losses.values()),
            }
        )
        print(f"draw {seed}: loses {100 * rows[-1]['mean_lost']:+.2f} points in the mean", flush=True)
    return rows


def print_tables(rules: list[dict[str, Any]], files: list[dict[str, Any]], whole: int) -> None:
    console = Console(width=120)
    if rules:
        table = Table(title="rules, all operations in integers; points of accuracy lost on the test images")
        for column in ("images", "ranges", "weights", "biases", "mean of draws", "worst domain", "error of logits"):
            table.add_column(column, justify="right")
        for row in rules:
            cells = (
                f"{100 * mean(row['mean_lost']):+.2f}",
                f"{100 * row['most_lost']:+.2f}",
                f"{100 * row['logits_error']:.3f} %",
            )
            biases = "moved" if row["moves_biases"] else "kept"
            table.add_row(str(row["images"]), row["ranges"], row["weights"], biases, *cells)
        console.print(table)
    table = Table(title="files, points of accuracy lost on the test images")
    names = list(files[0]["accuracy"])
    for column in ("draw", *names, "mean", "integers", "of float32's bytes"):
        table.add_column(column, justify="right")
    for row in files:
        lost = [f"{100 * (row['accuracy'][n]['float32'] - row['accuracy'][n]['int8']):+.2f}" for n in names]
        share = f"{row['bytes'] / whole:.3f}"
        count = f"{row['integers']} of {row['operations']}"
        table.add_row(str(row["draw"]), *lost, f"{100 * row['mean_lost']:+.2f}", count, share)
    console.print(table)


def problems(files: list[dict[str, Any]], whole: int) -> list[str]:
    """Return the targets that are missed."""
    found = []
    lost = mean(row["mean_lost"] for row in files)
    most, share = max(row["most_lost"] for row in files), max(row["bytes"] for row in files) / whole
    if lost > MOST_MEAN_LOSS:
        found.append(f"the mean over domains loses {100 * lost:.2f} points; at most {100 * MOST_MEAN_LOSS:.1f} may be")
    if most > MOST_LOSS + 1e-9:
        found.append(f"a domain loses {100 * most:.2f} points; at most {100 * MOST_LOSS:.0f} may be")
    if share > MOST_SHARE:
        found.append(f"a file has {share:.3f} of the float32 one's bytes; at most {MOST_SHARE} may be")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/demo"))
    parser.add_argument("--recipe", type=Path, help="the recipe of a model file")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--images", default="16,64,256")
    parser.add_argument("--no-rules", action="store_true", help="only make the files of the defaults")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.draws < 1:
        parser.error(f"--draws must be at least 1, got {arguments.draws}")
    counts = arguments.images.split(",")
    if not all(count.isdecimal() and int(count) for count in counts):
        parser.error(f"--images must be numbers from 1, such as 16,64, got {arguments.images!r}")
    if arguments.recipe:
        case = Case(load_recipe(arguments.recipe), read_bundle(arguments.run), arguments.data)
    else:
        run = open_run(arguments.run, "cpu")
        case = Case(run.recipe, pack_run(run), arguments.data)
    whole = bundle_size(case.bundle, "float32")
    rules = [] if arguments.no_rules else compare_rules(case, [int(count) for count in counts], arguments.draws)
    files = write_files(case, arguments.draws)
    print_tables(rules, files, whole)
    print(describe_machine())
    missed = problems(files, whole)
    if arguments.json:
        content = {"machine": describe_machine(), "run": arguments.run.stem, "backbone": case.recipe.backbone.name}
        content |= {"float32_bytes": whole, "calibration": Draw().calibration, "files": files, "rules": rules}
        arguments.json.write_text(json.dumps(content | {"missed": missed}, indent=2) + "\n")
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    try:
        main()
    except PrunusError as error:
        sys.exit(f"error: {error}")
