"""Prepare a recipe for the training loop: data, network, identity and logs."""

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import nn

from prunus.adding.start import start_from_nearest
from prunus.amounts import plural
from prunus.backbone.held import hold_linears
from prunus.backbone.own.registry import not_registered
from prunus.backbone.weights import fingerprint, write_weights
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.budgets.growth import GrowthKeeper
from prunus.budgets.keeper import Keeper
from prunus.checkpoints.changes import check_identity
from prunus.checkpoints.checkpoint import Checkpoint, Identity, read_checkpoint
from prunus.config import DomainChoice, Recipe
from prunus.data.cache import default_cache
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.data.loading import REPAIR, ImageSet, damaged_entry, load_images
from prunus.errors import RecipeError, TrainingError, UnknownNameError
from prunus.files import remove_leftovers, write_json
from prunus.images import Preprocess
from prunus.learning.arithmetic import prepare_determinism
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner, copy_state, network_state
from prunus.learning.teaching import Teacher
from prunus.masks.layout import is_switched
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.methods.table import adapt, choose_method, with_granularity
from prunus.parallel.processes import Processes
from prunus.run_folder import RunFolder
from prunus.training.loop import fit
from prunus.training.observers import JsonlLog, Observer, Observers, TensorBoardLog
from prunus.training.promise import make_growth_keeper, make_keeper
from prunus.training.reporting.findings import ScheduleWatch, limit_of
from prunus.training.saving import Saver
from prunus.training.settling import settled
from prunus.training.teachers import TeachingRun, backbone_teaches, make_teacher, read_reasons
from prunus.version import __version__

SKIPPING = f"{REPAIR}, or skip such images with skip_bad_images = true in the recipe"
RESTORING = "restore it, because a run continues with the images that it began with"


@dataclass(frozen=True)
class RecipeTraining:
    """A recipe and the folder it is trained in."""

    recipe: Recipe
    folder: RunFolder
    observer: Observers
    use_cache: bool
    processes: Processes
    teacher: TeachingRun | None = None

    def run(self, start: Checkpoint | None) -> None:
        """Choose what the recipe leaves open, then train it, from the beginning or from a checkpoint."""
        training = self.recipe.training
        domains = [open_domain(choice, training.validation_share) for choice in self.recipe.domains]
        recipe = settled(self.recipe, [len(domain.split(training.splits)) for domain in domains])
        prepare_determinism(training)
        backbone = replace(self, recipe=recipe)._backbone()
        backbone = as_trained(backbone, start) if start else backbone
        replace(self, recipe=with_granularity(recipe, backbone.network))._run(backbone, domains, start)

    def _run(self, backbone: Backbone, domains: Sequence[Domain], start: Checkpoint | None) -> None:
        """Load the data, adapt the network and train it."""
        recipe = self.recipe
        with self.processes.leader_first() if self.use_cache else nullcontext():  # which decodes for a whole machine
            data = self.load_data(backbone, domains)
        self._check_validation(data)
        identity = Identity(
            recipe=recipe,
            backbone=fingerprint(backbone.network),
            domains={domain.name: domain.train.fingerprint() for domain in data},
            classes={domain.name: domain.classes for domain in domains},
            preprocess={domain.name: domain.preprocess for domain in data},
            validation={domain.name: domain.validation.fingerprint() for domain in data if domain.validation},
        )
        if start:
            check_identity(start.identity, identity)
        chosen = choose_method(recipe)
        net = adapt(backbone, identity.classes, chosen.name, recipe.seed, chosen.options).to(self.processes.device)
        if recipe.init and start is None:
            if self.processes.is_first:
                start_from(Path(recipe.init), net, identity)
            self.processes.broadcast_(list(network_state(net).values()))
        if backbone.kept is not None and start is None:
            self._start_inside(net, data)
        teacher = self._make_teacher(net, data, start) if self.teacher else None
        keeper: Keeper | GrowthKeeper | None
        if backbone.kept is None:
            keeper = make_keeper(net, backbone, identity, self.processes)
        else:
            keeper = make_growth_keeper(net, backbone, recipe, self.processes)
        learner = Learner(net, recipe, self.processes, teacher)
        saver = Saver(self.folder, learner, identity, default_cache() / "frozen" if self.use_cache else None)
        fit(learner, data, saver, self._open_logs(), start, keeper)

    def _make_teacher(self, net: MultiDomainNet, data: Sequence[DomainData], start: Checkpoint | None) -> Teacher:
        """Decide who teaches which domain, or remember it, and say so."""
        assert self.teacher is not None
        check_teacher(self.teacher.net, net)
        reasons = read_reasons(self.folder) if start and self.processes.is_first else None
        if reasons is None and self.processes.is_first:
            reasons = backbone_teaches(self.teacher, self.recipe, {domain.name: len(domain.train) for domain in data})
            write_json(self.folder.teachers, reasons)
        reasons = self.processes.agree(reasons) or {}
        for name, why in reasons.items():
            self.observer.noted(f"the unchanged backbone with a linear classifier teaches domain {name!r}: {why}")
        return make_teacher(self.teacher, reasons)

    def load_data(self, backbone: Backbone, domains: Sequence[Domain]) -> list[DomainData]:
        """Load the images of all domains, as the network will see them."""
        return [self._load(backbone, *pair) for pair in zip(domains, self.recipe.domains, strict=True)]

    def _backbone(self) -> Backbone:
        """Load the network; the weights of an own one that no file holds are kept in the run."""
        is_new = not self.folder.holds_run()  # a file that is there all the same is a leftover
        backbone = load_backbone(self.recipe.backbone) if is_new else load_kept_backbone(self.folder, self.recipe)
        is_kept = not is_new and self.folder.backbone.exists()
        if self.processes.any([not backbone.has_file])[0]:  # each may have built another
            self.processes.broadcast_(list(backbone.network.state_dict().values()))
        if self.processes.is_first and not is_kept and not backbone.has_file:
            write_weights(self.folder.backbone, backbone.network)
        for note in backbone.notes:
            self.observer.noted(note)
        return backbone

    def _start_inside(self, net: MultiDomainNet, data: Sequence[DomainData]) -> None:
        """Let domains that are added to a model file begin as those of the file that are nearest to them."""
        if self.processes.is_first:
            for name, nearest in start_from_nearest(net, data).items():
                self.observer.noted(f"domain {name!r} starts from {nearest.domain!r}, the nearest domain of the file")
        self.processes.broadcast_(list(network_state(net).values()))

    def _open_logs(self) -> Observers:
        """Write what describes the run, and return its observers; of several processes only the first has any."""
        if not self.processes.is_first:
            return Observers([])
        if self.processes.world > 1 and self.recipe.training.compile:
            self.observer.noted("several processes train without training.compile")
        write_json(self.folder.recipe, self.recipe.model_dump(mode="json"))
        versions = {"prunus": __version__, "torch": torch.__version__.split("+")[0]}
        write_json(self.folder.versions, {"versions": versions})
        remove_leftovers(self.folder.path)
        logs = [JsonlLog(self.folder.log), TensorBoardLog(self.folder.tensorboard)]
        return Observers([*logs, *self._watch_schedule(), self.observer])

    def _watch_schedule(self) -> list[Observer]:
        limit = limit_of(self.recipe)
        is_alone = self.recipe.training.strategy == "individual" or choose_method(self.recipe).method.individual
        # one domain after another begins with all kernels, and only shares of all kernels are reported
        if limit is None or is_alone or limit.per != "network":
            return []
        return [ScheduleWatch(self.recipe.training, limit, self.observer.noted)]

    def _load(self, backbone: Backbone, domain: Domain, choice: DomainChoice) -> DomainData:
        splits = self.recipe.training.splits
        preprocess = resized(backbone.preprocess, choice)
        train = self._images(domain, splits, preprocess)
        if choice.statistics == "own":
            mean, std = train.statistics()
            preprocess = Preprocess(**preprocess.model_dump() | {"mean": mean, "std": std})
        if train.skipped:
            self.observer.noted(f"skipped {plural(len(train.skipped), 'unreadable image')} of domain {domain.name!r}")
        held_out = splits == "train" and domain.validation
        validation = self._images(domain, "validation", preprocess) if held_out else None
        return DomainData(domain.name, preprocess, choice.mirrored, train, validation)

    def _check_validation(self, data: Sequence[DomainData]) -> None:
        training = self.recipe.training
        lacking = [domain.name for domain in data if domain.validation is None]
        if lacking and (training.keep == "best" or training.patience):
            key = 'training.keep = "best"' if training.keep == "best" else "training.patience"
            raise RecipeError(
                f"{key} needs validation images, which domain {lacking[0]!r} lacks; "
                f'add some, set training.splits = "train", or remove {key}'
            )

    def _images(self, domain: Domain, split: str, preprocess: Preprocess) -> ImageSet:
        cache = default_cache() if self.use_cache else None
        self.observer.loading(domain.name, split)
        remedy = RESTORING if self.folder.holds_run() else SKIPPING
        skip_bad, loaded = self.recipe.skip_bad_images, self.observer.loaded
        images = load_images(domain, split, preprocess, skip_bad, cache, loaded, remedy=remedy)
        if images.was_damaged:
            self.observer.noted(damaged_entry(domain.name, split))
        return images


def load_kept_backbone(folder: RunFolder, recipe: Recipe) -> Backbone:
    """Load the network of a run, with the weights that the run has kept if no other file holds them."""
    if not folder.backbone.exists():
        return load_backbone(recipe.backbone)
    try:
        return load_backbone(recipe.backbone, folder.backbone)
    except UnknownNameError as error:
        raise not_registered(f"{folder.path} was trained with", recipe.backbone.name) from error


def as_trained(backbone: Backbone, checkpoint: Checkpoint) -> Backbone:
    """Return the network of a run with the switches that the run has.

    Runs of earlier versions have none on linear layers.
    """
    recipe, classes = checkpoint.identity.recipe, checkpoint.identity.classes
    if not any(is_switched(module) for module in backbone.network.modules() if isinstance(module, nn.Linear)):
        return backbone
    chosen = choose_method(recipe)
    ours = network_state(adapt(backbone, classes, chosen.name, recipe.seed, chosen.options))
    fits = all(name in checkpoint.tensors and checkpoint.tensors[name].shape == t.shape for name, t in ours.items())
    if fits:
        return backbone
    network = copy.deepcopy(backbone.network)
    hold_linears(network)
    return replace(backbone, network=network)


def start_from(path: Path, net: MultiDomainNet, identity: Identity) -> None:
    """Copy the network of another run, which must have the same backbone, domains, classes and kind of method."""
    folder = RunFolder(path)
    if not folder.checkpoint.exists():
        raise TrainingError(f"there is no trained run in {path} to start from; check the path of init")
    theirs = read_checkpoint(folder.best if folder.best.exists() else folder.checkpoint)
    if theirs.identity.classes != identity.classes or list(theirs.identity.classes) != list(identity.classes):
        raise TrainingError(
            f"{path} was trained on other domains or classes ({', '.join(theirs.identity.classes)}); "
            "a run can start from one with the same domains in the same order"
        )
    if theirs.identity.backbone != identity.backbone:
        names = [recipe.backbone.name for recipe in (theirs.identity.recipe, identity.recipe)]
        weights = "" if names[0] != names[1] else " with other weights"
        raise TrainingError(
            f"{path} was trained with backbone {names[0]}, and this recipe has {names[1]}{weights}; "
            "a run can start from one with the same backbone"
        )
    ours = network_state(net)
    shapes = {name: tensor.shape for name, tensor in theirs.tensors.items() if name.startswith("net/")}
    if shapes != {name: tensor.shape for name, tensor in ours.items()}:
        methods = [choose_method(recipe).name for recipe in (theirs.identity.recipe, identity.recipe)]
        raise TrainingError(
            f"{path} was trained with method {methods[0]!r}, whose parameters do not fit {methods[1]!r}; "
            "start from a run with the same kind of parameters"
        )
    copy_state(theirs.tensors, ours)
    if isinstance(net.switches, PooledSwitches):
        net.switches.reopen()  # the new run has a budget of its own


def check_teacher(teacher: MultiDomainNet, net: MultiDomainNet) -> None:
    """Refuse a teacher of other domains, classes or image sizes."""
    if list(teacher.classes.items()) != list(net.classes.items()) or teacher.image_size != net.image_size:
        raise TrainingError(
            f"the teacher was trained on other domains, classes or image sizes ({', '.join(teacher.classes)} at "
            f"{teacher.image_size} px); a teacher needs the recipe's own, in the same order"
        )


def resized(preprocess: Preprocess, choice: DomainChoice) -> Preprocess:
    """Return the backbone's preprocessing with a domain's own fit and size."""
    changes = {"fit": choice.fit} | ({"resize": choice.resize} if choice.resize else {})
    try:
        return Preprocess(**preprocess.model_dump() | changes)
    except ValidationError as error:
        raise RecipeError(f"domain {choice.name!r}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
