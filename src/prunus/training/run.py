"""A run folder: a recipe, a checkpoint and logs; how one is begun, resumed and opened again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from prunus.backbone.device import choose_device
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import DomainChoice, Recipe, load_recipe, parse_recipe, recipe_differences, with_absolute_paths
from prunus.data.cache import default_cache
from prunus.data.domains import Domain
from prunus.data.loading import ImageSet, load_images
from prunus.data.opening import open_domain
from prunus.errors import RecipeError, TrainingError
from prunus.files import remove_leftovers, write_json
from prunus.images import Preprocess
from prunus.losses.sharing import find_sharing_loss
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt, find_method
from prunus.training.checkpoint import Checkpoint, Identity, read_checkpoint
from prunus.training.learner import Learner
from prunus.training.loop import DomainData, fit
from prunus.training.observers import JsonlLog, Observer, Observers, TensorBoardLog


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps its files."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was run, defaults filled in."""
        return self.path / "recipe.json"

    @property
    def checkpoint(self) -> Path:
        """The last saved state."""
        return self.path / "checkpoint.safetensors"

    @property
    def log(self) -> Path:
        """One JSON line per epoch."""
        return self.path / "log.jsonl"


@dataclass(frozen=True)
class TrainedRun:
    """A run opened for measuring or pruning."""

    recipe: Recipe
    backbone: Backbone
    net: MultiDomainNet
    preprocess: dict[str, Preprocess]
    checkpoint: Checkpoint


def check_recipe(recipe: Recipe) -> None:
    """Refuse, before any work, names that are in no table and settings that contradict each other."""
    method = find_method(recipe.method)
    find_sharing_loss(recipe.sharing.loss)
    if not method.has_sharing and "sharing" in recipe.model_fields_set and recipe.sharing != type(recipe.sharing)():
        raise RecipeError(
            f'method {recipe.method!r} has no sharing loss; remove [sharing] or use method = "budget_aware"'
        )
    if method.has_sharing and recipe.training.strategy == "individual":
        raise RecipeError(
            "strategy 'individual' trains each domain alone and shares nothing; use another one, or method = \"ba2\""
        )


def start_run(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe from the beginning in a new folder."""
    folder = RunFolder(path)
    if folder.recipe.exists():
        raise TrainingError(
            f"{path} already holds a run; go on with: prunus train --resume {path}, or choose another --out"
        )
    check_recipe(recipe)
    recipe = with_absolute_paths(recipe, Path.cwd())
    _Training(recipe, folder, Observers(observers), use_cache).run(device, None)


def resume_run(
    path: Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> None:
    """Go on with a run as if nothing had happened; a recipe, if given, must be the run's own."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(f"{path} holds no run to resume; begin one with: prunus train recipe.toml --out {path}")
    own = load_recipe(folder.recipe)
    if recipe is not None and (changes := recipe_differences(own, recipe)):
        raise TrainingError(
            f"{path} was made with another recipe ({'; '.join(changes[:3])}); resume it without one, or use a new --out"
        )
    start = _own_checkpoint(folder, own) if folder.checkpoint.exists() else None
    _Training(own, folder, Observers(observers), use_cache).run(device, start)


def open_run(path: Path, device: str = "auto") -> TrainedRun:
    """Open what a run has learned so far; its images are not needed."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(
            f"{path} is neither a run folder nor a model file; make one with: prunus train recipe.toml --out {path}"
        )
    recipe = load_recipe(folder.recipe)
    checkpoint = _own_checkpoint(folder, recipe)
    backbone = load_backbone(recipe.backbone)
    _check_same("backbone", checkpoint.identity.backbone, fingerprint(backbone.network))
    net = adapt(backbone, checkpoint.identity.classes, recipe.method, recipe.seed)
    learner = Learner(net.to(choose_device(device)), recipe)
    learner.restore(checkpoint.tensors)
    preprocess = {name: Preprocess(**fields) for name, fields in checkpoint.identity.preprocess.items()}
    return TrainedRun(recipe, backbone, net.eval(), preprocess, checkpoint)


@dataclass(frozen=True)
class _Training:
    """Everything between a recipe and the loop: data, network, identity, logs."""

    recipe: Recipe
    folder: RunFolder
    observer: Observers
    use_cache: bool

    def run(self, device: str, start: Checkpoint | None) -> None:
        """Prepare all and train."""
        recipe, folder, target = self.recipe, self.folder, choose_device(device)
        backbone = load_backbone(recipe.backbone)
        domains = [open_domain(choice, recipe.training.validation_share) for choice in recipe.domains]
        data = [self._load(backbone, domain, choice) for domain, choice in zip(domains, recipe.domains, strict=True)]
        identity = Identity(
            recipe.model_dump(mode="json"),
            fingerprint(backbone.network),
            {domain.name: domain.train.fingerprint() for domain in data},
            {domain.name: domain.classes for domain in domains},
            {domain.name: domain.preprocess.model_dump(mode="json") for domain in data},
        )
        if start:
            _check_same("backbone", start.identity.backbone, identity.backbone)
            for name, print_ in identity.domains.items():
                _check_same(f"data of domain {name!r}", start.identity.domains.get(name), print_)
        net = adapt(backbone, identity.classes, recipe.method, recipe.seed).to(target)
        write_json(folder.recipe, identity.recipe)
        remove_leftovers(folder.path)
        logs = [JsonlLog(folder.log), TensorBoardLog(folder.path / "tensorboard")]
        fit(Learner(net, recipe), data, folder.checkpoint, identity, Observers([*logs, self.observer]), start)

    def _load(self, backbone: Backbone, domain: Domain, choice: DomainChoice) -> DomainData:
        preprocess, splits = resized(backbone.preprocess, choice), self.recipe.training.splits
        train = self._images(domain, splits, preprocess)
        if choice.statistics == "own":
            mean, std = train.statistics()
            preprocess = Preprocess(**preprocess.model_dump() | {"mean": mean, "std": std})
        if train.skipped:
            self.observer.noted(f"{len(train.skipped)} bad images of domain {domain.name!r} left out")
        held_out = splits == "train" and domain.validation
        validation = self._images(domain, "validation", preprocess) if held_out else None
        return DomainData(domain.name, preprocess, choice.mirrored, train, validation)

    def _images(self, domain: Domain, split: str, preprocess: Preprocess) -> ImageSet:
        cache = default_cache() if self.use_cache else None
        return load_images(domain, split, preprocess, self.recipe.skip_bad_images, cache, self.observer.loaded)


def resized(preprocess: Preprocess, choice: DomainChoice) -> Preprocess:
    """Apply a domain's own fit and size to the backbone's preprocessing."""
    changes = {"fit": choice.fit} | ({"resize": choice.resize} if choice.resize else {})
    try:
        return Preprocess(**preprocess.model_dump() | changes)
    except ValidationError as error:
        raise RecipeError(f"domain {choice.name!r}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _own_checkpoint(folder: RunFolder, recipe: Recipe) -> Checkpoint:
    checkpoint = read_checkpoint(folder.checkpoint)
    if changes := recipe_differences(recipe, parse_recipe(checkpoint.identity.recipe)):
        raise TrainingError(f"{folder.checkpoint} is of another recipe than {folder.recipe} ({'; '.join(changes[:3])})")
    return checkpoint


def _check_same(what: str, before: str | None, now: str) -> None:
    if before != now:
        raise TrainingError(f"the {what} is not the one this run was made with; put it back, or begin a new run")
