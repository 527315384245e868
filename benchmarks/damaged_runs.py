"""Kill a training run again and again, damage a file after every third kill, and see how the run ends.

    python -m benchmarks.damaged_runs [--kills 30] [--seeds 0,1,2] [--json FILE]

A damaged file has one flipped bit, or is cut short at a random length. It is the newest checkpoint, both checkpoints,
the best epoch or the cache of decoded images. Each damage must be named by the next attempt, which then continues from
the checkpoint before, forgets the best epoch, decodes the images again, or refuses to train if nothing is left to
continue from. In the end the run must have the weights of one that was never stopped, bit for bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.config import Recipe
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.timing.machine import describe_machine
from tests.conftest import write_domain
from tests.makers.killed_training import NEVER, Kill, attempt, draw_moment, import_all

TARGETS = ("checkpoint", "checkpoint", "best", "checkpoint", "cache", "checkpoint", "best", "both checkpoints")
STEPS_A_KILL = 10  # more than an attempt usually survives, so that no run ends before its last kill


@dataclass(frozen=True)
class Damage:
    """What was done to a file, and what the next attempt said about it."""

    target: str
    kind: str
    said: str | None
    was_refused: bool


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the differences are names of tensors."""

    seed: int
    kills: int
    damages: list[Damage]
    differences: list[str]
    best_differences: list[str]

    def is_right(self) -> bool:
        """Return whether each damage was named and the run ended with the right weights."""
        may_lose_best = any(damage.target == "best" for damage in self.damages)
        named = all(damage.said for damage in self.damages)
        return named and not self.differences and (may_lose_best or not self.best_differences)


def write_recipe(folder: Path, kills: int) -> Recipe:
    domains = [str(write_domain(folder / name, train=4, validation=2)) for name in ("one", "two")]
    training = {
        **{"batch_size": 4, "lr": 0.05, "schedule": "cosine", "warmup_epochs": 2.0, "switch_lr": 1e-3},
        **{"epochs": kills * STEPS_A_KILL // 4, "keep": "best", "checkpoint_seconds": 0.02},
    }
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    return parse_recipe(
        {"preset": "paper", "backbone": backbone, "domains": domains, "budget": 0.99, "training": training}
    )


def damage(files: list[Path], rng: random.Random) -> str:
    """Flip a bit in each file, or cut each short."""
    kind = rng.choice(["flipped bit", "cut short"])
    for file in files:
        content = bytearray(file.read_bytes())
        if kind == "flipped bit":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            del content[rng.randrange(len(content)) :]
        file.write_bytes(content)
    return kind


def choose_files(target: str, folder: RunFolder, cache: Path) -> list[Path]:
    """Return the files of a target; none if damage would have no effect yet."""
    if target == "cache":
        return sorted(cache.rglob("images.npy"))[:1]
    if target == "best":
        is_known = folder.checkpoint.exists() and read_checkpoint(folder.checkpoint).position.best is not None
        return [folder.best] if is_known else []
    if not (folder.checkpoint.exists() and folder.previous.exists()):
        return []
    return [folder.checkpoint, folder.previous] if target == "both checkpoints" else [folder.checkpoint]


def find_words(kill: Kill, files: list[Path], target: str) -> str | None:
    """Return the sentence in which an attempt named the damage."""
    wanted = "in the cache were damaged" if target == "cache" else files[0].name
    return next((note for note in kill.notes if wanted in note), None)


def run(folder: Path, kills: int, seed: int) -> Outcome:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    recipe = write_recipe(folder, kills)
    rng = random.Random(seed)
    killed = RunFolder(folder / "killed")
    damages: list[Damage] = []
    for number in range(kills):
        files, target, kind = [], "", ""
        if len(damages) < (number + 1) // 3:
            target = TARGETS[(len(damages) + 3 * seed) % len(TARGETS)]
            files = choose_files(target, killed, folder / "cache")
            if not files:
                target, files = "checkpoint", choose_files("checkpoint", killed, folder)
            kind = damage(files, rng) if files else ""
        kill = attempt(recipe, killed.path, draw_moment(number, rng), use_cache=True)
        if files:
            said = _without_folder(find_words(kill, files, target))
            damages.append(Damage(target, kind, said, kill.refusal is not None))
        if kill.refusal:  # do what it says
            killed.checkpoint.unlink()
            killed.previous.unlink(missing_ok=True)
        elif not kill.was_killed:
            raise SystemExit("the run ended before its last kill; train it for more epochs")
    straight = RunFolder(folder / "straight")
    for last in (killed, straight):
        if attempt(recipe, last.path, NEVER, use_cache=True).refusal:
            raise SystemExit(f"{last.path.name} did not end by itself")
    return Outcome(
        seed,
        kills,
        damages,
        differences(straight.checkpoint, killed.checkpoint),
        differences(straight.best, killed.best),
    )


def differences(first: Path, second: Path) -> list[str]:
    ours, theirs = (read_checkpoint(file).tensors for file in (first, second))
    return [
        name
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or not torch.equal(ours[name], theirs[name])
    ]


def show(outcomes: list[Outcome]) -> None:
    table = Table("seed", "kills", "damaged", "named", "refused", "differences", "best epoch")
    for outcome in outcomes:
        named = sum(damage.said is not None for damage in outcome.damages)
        refused = sum(damage.was_refused for damage in outcome.damages)
        numbers = (outcome.seed, outcome.kills, len(outcome.damages), named, refused, len(outcome.differences))
        table.add_row(*map(str, numbers), "other" if outcome.best_differences else "same")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    import_all()
    outcomes = []
    for seed in map(int, arguments.seeds.split(",")):
        with tempfile.TemporaryDirectory() as name:
            outcomes.append(run(Path(name), arguments.kills, seed))
    show(outcomes)
    if arguments.json:
        content = {
            "command": f"python -m benchmarks.damaged_runs --kills {arguments.kills} --seeds {arguments.seeds}",
            "machine": describe_machine(),
            "runs": [dataclasses.asdict(outcome) for outcome in outcomes],
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")
    sys.exit(0 if all(outcome.is_right() for outcome in outcomes) else 1)


def _without_folder(said: str | None) -> str | None:
    """Remove the names of temporary folders from a sentence."""
    return said and " ".join(Path(word).name if word.startswith("/") else word for word in said.split())


if __name__ == "__main__":
    main()
