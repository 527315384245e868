"""Measure a run or a model file: accuracy, usage and cost of every domain, and the scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunus.backbone.device import choose_device
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_bytes
from prunus.bundle.manifest import DomainEntry
from prunus.config import DEMO_PREFIX, Crops, DomainChoice, Recipe
from prunus.data.cache import default_cache
from prunus.data.domains import SPLITS, UNLABELLED
from prunus.data.layouts import open_domain
from prunus.data.loading import ImageSet, load_images
from prunus.errors import BackboneError, BundleError, DataError, UnknownNameError
from prunus.graph.operations import Conv
from prunus.lowering.pack import is_packable
from prunus.measure.accuracy import Labels, classify, num_crops
from prunus.measure.cost import CostReport, DomainCost, LayerCost, count_layer
from prunus.measure.evaluation import DomainResult, Evaluation
from prunus.measure.machine import usable_processors
from prunus.measure.score import Scores, decathlon_score, efficiency_scores
from prunus.methods.costs import network_costs
from prunus.methods.table import choose_method
from prunus.probabilities import Logits
from prunus.recipes import parse_recipe
from prunus.runtime.predictor import Predictor
from prunus.training.loop import net_logits
from prunus.training.run import TrainedRun, open_run
from prunus.verbs.prune import domain_entries, pack_run


@dataclass(frozen=True)
class Subject:
    """Something to measure: a masked network or a model file."""

    recipe: Recipe
    domains: Mapping[str, DomainEntry]
    logits: Callable[[str], Logits]
    costs: CostReport
    steps: tuple[int, int]
    dense_bytes: int
    stored_bytes: int
    model_bytes: int | None  # None where no model file can hold the method or the network


def evaluate(
    target: str | Path,
    split: str = "test",
    data: str | Path | None = None,
    crops: Crops | None = None,
    device: str = "auto",
    use_cache: bool = True,
) -> Evaluation:
    """Measure a run folder or a model file on a split of its domains.

    Args:
        data: the folder that holds the domains by name, or the benchmark, where the recipe's place is not it.
        crops: how many crops of an image are averaged; the recipe's own number where left out.
    """
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    subject = open_subject(Path(target), device)
    costs = subject.costs
    domains: dict[str, DomainResult] = {}
    for choice, labels, images, count in classify_domains(subject, split, data, crops, use_cache):
        domains[choice.name] = DomainResult(
            accuracy=float((labels == images.labels).mean()),
            images=len(images),
            skipped=len(images.skipped),
            crops=count,
            usage=costs.usage(choice.name),
            macs=costs.macs(choice.name),
            macs_ratio=costs.macs_ratio(choice.name),
        )
    return _results(subject, split, domains)


def classify_domains(
    subject: Subject,
    split: str,
    data: str | Path | None = None,
    crops: Crops | None = None,
    use_cache: bool = True,
    unlabelled: bool = False,
) -> Iterator[tuple[DomainChoice, Labels, ImageSet, int]]:
    """Classify a split of every domain: the found labels, the images and how many crops were averaged.

    Args:
        unlabelled: answer images without labels too; then none may be left out, however bad.
    """
    settings, cache = subject.recipe.evaluation, default_cache() if use_cache else None
    for choice in subject.recipe.domains:
        domain = open_domain(_locate(choice, data), subject.recipe.training.validation_share)
        entry = subject.domains[choice.name]
        if domain.classes != entry.classes:
            raise DataError(
                f"the classes of domain {choice.name!r} in {domain.source.path} are not those the model was trained on"
            )
        if not unlabelled and any(item.label == UNLABELLED for item in domain.split(split)):
            raise DataError(
                f"the {split} images of {choice.name!r} have no labels; write a submission with prunus submit, "
                f"or put the labels beside as annotations/{choice.name}_test.json"
            )
        skip_bad = subject.recipe.skip_bad_images and not unlabelled
        images = load_images(domain, split, entry.preprocess, skip_bad, cache)
        count = num_crops(crops or settings.crops, choice.mirrored, entry.preprocess)
        labels = classify(subject.logits(choice.name), images, entry.preprocess, count, settings.batch_size)
        yield choice, labels, images, count


def open_subject(path: Path, device: str = "auto") -> Subject:
    """Open a run folder or a model file for measuring."""
    if path.is_dir():
        run = open_run(path, device)
        bundle = _packed(run)
        costs = _file_costs(bundle, run.recipe) if bundle else network_costs(run.net, run.backbone.probe)
        return Subject(
            run.recipe,
            domain_entries(run),
            lambda domain: net_logits(run.net, domain),
            costs,
            (run.checkpoint.step, run.checkpoint.total_steps),
            run.net.dense_bytes(),
            costs.stored_bytes(),
            len(bundle_bytes(bundle)) if bundle else None,
        )
    choose_device(device)  # files are run by the processor, but a name that cannot be is refused all the same
    predictor = Predictor(path, threads=usable_processors())
    manifest = predictor.bundle.manifest
    if missing := {"recipe", "step", "total_steps"} - manifest.provenance.keys():
        raise BundleError(f"{path} does not tell its {min(missing)}, so that it cannot be measured; use prunus predict")
    recipe = parse_recipe(manifest.provenance["recipe"])
    costs = _file_costs(predictor.bundle, recipe)
    return Subject(
        recipe,
        manifest.domains,
        lambda domain: lambda images: predictor.logits(images, domain),
        costs,
        (manifest.provenance["step"], manifest.provenance["total_steps"]),
        manifest.dense_bytes,
        costs.stored_bytes(),
        path.stat().st_size,
    )


def _packed(run: TrainedRun) -> Bundle | None:
    """Pack a run where a model file can hold its method and its network."""
    try:
        return pack_run(run) if is_packable(run.net) else None
    except BackboneError:
        return None


def bundle_costs(bundle: Bundle, has_switches: bool, granularity: str = "kernel") -> CostReport:
    """Count the costs of a bundle, relative to the network that it was before channels were removed.

    `network_costs` counts every kernel that is switched on; a file has none whose result nobody reads, and may count
    less. Switches are counted as a run has them, one per kernel, filter or input channel of the network it was.
    """
    layers: dict[str, LayerCost] = {}
    switches = 0
    for operation in bundle.manifest.graph:
        if isinstance(operation, Conv) and operation.layer not in layers:
            name, conv = operation.layer, bundle.manifest.convs[operation.layer]
            outputs, inputs = operation.was or operation.channels
            switches += {"filter": outputs, "input_channel": inputs}.get(granularity, outputs * inputs)
            mask_DOI = np.stack([bundle.mask(domain, name) for domain in bundle.domains])
            area = conv.kernel[0] * conv.kernel[1]
            layers[name] = count_layer(name, mask_DOI, area, conv.positions, num_kernels=conv.dense_kernels)
    own = tuple(
        DomainCost(switches * has_switches, _bits(bundle, f"norm/{name}/") + _bits(bundle, f"head/{name}/"))
        for name in bundle.domains
    )
    return CostReport(bundle.domains, tuple(layers.values()), own, side_bits=_bits(bundle, "shared/"))


def _file_costs(bundle: Bundle, recipe: Recipe) -> CostReport:
    chosen = choose_method(recipe)
    return bundle_costs(bundle, chosen.method.masked, getattr(chosen.options, "granularity", "kernel"))


def _bits(bundle: Bundle, prefix: str) -> int:
    return sum(32 * array.size for name, array in bundle.arrays.items() if name.startswith(prefix))


def _locate(choice: DomainChoice, data: str | Path | None) -> DomainChoice:
    if data is not None and choice.layout == "decathlon":
        return choice.model_copy(update={"path": str(data)})
    if data is not None:
        folder = Path(data) / choice.name
        zipped = folder.with_name(f"{choice.name}.zip")
        return choice.model_copy(update={"path": str(zipped if zipped.is_file() else folder)})
    if not choice.path.startswith(DEMO_PREFIX) and not Path(choice.path).is_absolute():
        raise DataError(
            f"the model file does not say where the images of {choice.name!r} lie; name their folder with --data DIR"
        )
    return choice


def _results(subject: Subject, split: str, domains: dict[str, DomainResult]) -> Evaluation:
    recipe, costs, chosen = subject.recipe, subject.costs, choose_method(subject.recipe)
    accuracies = [domain.accuracy for domain in domains.values()]
    return Evaluation(
        method=chosen.name,
        options=chosen.options.model_dump(mode="json"),
        backbone=recipe.backbone.name,
        budget=recipe.budget if chosen.method.has_budget else None,
        sharing=chosen.sharing,
        seed=recipe.seed,
        split=split,
        steps=subject.steps,
        domains=domains,
        mean_accuracy=sum(accuracies) / len(accuracies),
        union=costs.union(),
        intersection=costs.intersection(),
        sparsity=costs.sparsity(),
        params_ratio=costs.params_ratio(),
        params_ratio_with_source=costs.params_ratio(with_source=True),
        macs_ratio=costs.mean_macs_ratio(),
        macs_ratio_with_source=costs.mean_macs_ratio(with_source=True),
        dense_macs=costs.dense_macs(),
        model_bytes=subject.model_bytes,
        stored_bytes=subject.stored_bytes,
        dense_bytes=subject.dense_bytes,
        scores=_scores(recipe, accuracies, costs),
    )


def _scores(recipe: Recipe, accuracies: list[float], costs: CostReport) -> Scores | None:
    """Compute S and its relatives where the recipe gives the accuracies they compare with."""
    finetuned = [choice.finetune_accuracy for choice in recipe.domains]
    feature = [choice.feature_accuracy for choice in recipe.domains]
    known = [value for value in finetuned if value is not None]
    if len(known) < len(finetuned):
        return None
    baseline = [value for value in feature if value is not None]
    feature_score = decathlon_score(baseline, known) if len(baseline) == len(known) else None
    score = decathlon_score(accuracies, known)
    return efficiency_scores(score, costs.mean_macs_ratio(), costs.params_ratio(), feature_score)
