"""A plain training loop with the steps, images, augmentation and rates of our own training."""

from collections.abc import Sequence
from contextlib import closing

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.config import Recipe, Strategy, Training
from prunus.data.prefetch import choose_workers, prepare_steps
from prunus.data.schedule import Step, schedule
from prunus.learning.arithmetic import arithmetic
from prunus.learning.feed import DomainData, Feed, Inputs, StepJob, drawing, make_feeds
from prunus.learning.learner import Batch
from prunus.learning.optimizers.uncompiled import SGD
from prunus.learning.rates import rate_factor
from prunus.run_folder import DomainProgress, EpochReport
from prunus.training.observers import Observer

HEADS = "heads."


def fit_network(
    network: nn.Module, data: Sequence[DomainData], recipe: Recipe, observer: Observer, device: torch.device
) -> None:
    """Train a network that returns the logits of every domain; the images of a step go through it in one batch.

    A batch mixes the domains, since they share the statistics of its norms.
    """
    training = recipe.training
    strategy: Strategy = "mixed" if len(data) > 1 else "individual"
    sizes = [len(domain.train) for domain in data]
    steps = list(schedule(strategy, sizes, training.batch_size, training.num_epochs, recipe.seed))
    jobs = [StepJob(recipe.seed, number, step.parts) for number, step in enumerate(steps, 1)]
    feeds = make_feeds(data, device, recipe)
    workers = choose_workers(training.workers, bool(training.augment))
    # convolutions are fast in the memory format that our own method trains with
    is_slow = device.type == "cuda" and training.precision == "float32"
    memory_format = torch.contiguous_format if is_slow else torch.channels_last
    network.to(device).to(memory_format=memory_format).train()
    sgd = SGD(rate_groups(network, training), lr=training.lr, momentum=training.momentum)
    tally = _Tally([domain.name for domain in data])
    observer.started(0, len(steps))
    try:
        with (
            arithmetic(training, device),
            closing(prepare_steps(jobs, drawing(feeds), workers, device.type == "cuda")) as drawn,
        ):
            for step, job, inputs in zip(steps, jobs, drawn, strict=True):
                torch.manual_seed(job.step_seed)
                batches = _batches(feeds, step, inputs, device)
                loss, logits = loss_of(network, batches, training, device)
                _move(sgd, loss, rate_factor(training, step.position))
                tally.count(batches, logits)
                observer.stepped(job.step, step.epoch)
                if job.step == len(steps) or steps[job.step].epoch != step.epoch:
                    observer.epoch_ended(tally.report(step.epoch, job.step))
    finally:
        observer.ended()
    network.eval()


def _batches(feeds: Sequence[Feed], step: Step, inputs: Sequence[Inputs], device: torch.device) -> list[Batch]:
    """Make the batches of a step, one per domain, on the device."""
    return [
        feeds[domain].batch(tuple(tensor.to(device, non_blocking=True) for tensor in part))
        for (domain, _), part in zip(step.parts, inputs, strict=True)
    ]


def _move(sgd: SGD, loss: Tensor, factor: float) -> None:
    """Take one step of SGD at a factor of the rates."""
    for group in sgd.param_groups:
        group["lr"] = group["base_lr"] * factor
    sgd.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    sgd.step()


def loss_of(
    network: nn.Module, batches: Sequence[Batch], training: Training, device: torch.device
) -> tuple[Tensor, list[Tensor]]:
    """Return the mean cross-entropy of one step and the logits of its parts."""
    on_gpu = device.type == "cuda" and training.precision != "float32"
    with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu or training.precision == "bfloat16"):
        outputs = network(torch.cat([batch.images for batch in batches]))
    logits = []
    start = 0
    for batch in batches:
        stop = start + len(batch.labels)
        logits.append(outputs[batch.domain][start:stop].float())
        start = stop
    losses = [
        F.cross_entropy(
            part, batch.labels, batch.class_weights, label_smoothing=training.label_smoothing, reduction="sum"
        )
        for batch, part in zip(batches, logits, strict=True)
    ]
    return torch.stack(losses).sum() / start, logits


def rate_groups(network: nn.Module, training: Training) -> list[dict[str, object]]:
    """Sort parameters by rate and weight decay, as our own training does for fine-tuned networks."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            is_matrix = parameter.ndim > 1
            is_inside = HEADS not in name
            rate = (training.weight_lr or training.lr) if is_matrix and is_inside else training.lr
            groups.setdefault((rate, training.weight_decay if is_matrix else 0.0), []).append(parameter)
    return [
        {"params": parameters, "base_lr": rate, "weight_decay": decay} for (rate, decay), parameters in groups.items()
    ]


class _Tally:
    """The answers of an epoch, for those who watch."""

    def __init__(self, domains: Sequence[str]) -> None:
        self._domains = domains
        self._seen: list[tuple[int, Tensor, Tensor]] = []  # domain, losses, correct answers

    def count(self, batches: Sequence[Batch], logits: Sequence[Tensor]) -> None:
        """Count the answers of one step."""
        for batch, part in zip(batches, logits, strict=True):
            losses = F.cross_entropy(part.detach(), batch.labels, reduction="none")
            self._seen.append((batch.domain, losses, part.detach().argmax(1) == batch.labels))

    def report(self, epoch: int, step: int) -> EpochReport:
        """Report an epoch, and begin the next."""
        domains = {}
        for index, name in enumerate(self._domains):
            seen = [(losses, correct) for domain, losses, correct in self._seen if domain == index]
            loss, accuracy = (float(torch.cat(values).float().mean()) for values in zip(*seen, strict=True))
            domains[name] = DomainProgress(loss, accuracy, validation_accuracy=None, usage=1.0)
        self._seen.clear()
        return EpochReport(epoch, step, domains, union=1.0, has_switches=False)
