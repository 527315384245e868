"""Everything between a recipe and the loop: data, network, identity, logs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import ValidationError

from prunus.backbone.device import choose_device
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import DomainChoice, Recipe
from prunus.data.cache import default_cache
from prunus.data.domains import Domain
from prunus.data.loading import ImageSet, load_images
from prunus.data.opening import open_domain
from prunus.errors import RecipeError, TrainingError
from prunus.files import remove_leftovers, write_json
from prunus.images import Preprocess
from prunus.methods.table import adapt, choose_method
from prunus.training.checkpoint import Checkpoint, Identity
from prunus.training.folder import RunFolder
from prunus.training.learner import Learner
from prunus.training.loop import DomainData, fit
from prunus.training.observers import JsonlLog, Observers, TensorBoardLog
from prunus.version import __version__


@dataclass(frozen=True)
class RecipeTraining:
    """A recipe about to be trained in a folder."""

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
            check_same("backbone", start.identity.backbone, identity.backbone)
            for name, print_ in identity.domains.items():
                check_same(f"data of domain {name!r}", start.identity.domains.get(name), print_)
        chosen = choose_method(recipe)
        net = adapt(backbone, identity.classes, chosen.name, recipe.seed, chosen.options).to(target)
        write_json(folder.recipe, identity.recipe)
        versions = {"prunus": __version__, "torch": torch.__version__.split("+")[0]}
        write_json(folder.path / "versions.json", {"versions": versions})
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


def check_same(what: str, before: str | None, now: str) -> None:
    """Refuse to go on with something else than a run began with."""
    if before != now:
        raise TrainingError(f"the {what} is not the one this run was made with; put it back, or begin a new run")
