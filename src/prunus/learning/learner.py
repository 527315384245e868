"""One optimizer step on a batch of one or more domains, and all the state that a step changes.

Legend: D = domains, M = switches of a domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.config import Recipe, Training
from prunus.errors import TrainingError
from prunus.learning.constraints import Constraints
from prunus.learning.optimizers.row_adam import RowAdam
from prunus.learning.optimizers.uncompiled import SGD
from prunus.learning.rates import rounding_start
from prunus.learning.teaching import Teacher, taught_loss
from prunus.masks.network import MultiDomainNet
from prunus.masks.rounding import Rounding
from prunus.methods.exact import Options
from prunus.methods.table import choose_method
from prunus.parallel.processes import ALONE, Portion, Processes
from prunus.parallel.synced_norms import SyncedNorms


@dataclass(frozen=True)
class Batch:
    """Prepared images of one domain.

    Args:
        total: number of images of all processes together (default: this process has all of them).
    """

    domain: int
    images: Tensor
    labels: Tensor
    class_weights: Tensor | None = None
    total: int | None = None

    @property
    def size(self) -> int:
        """Return the number of images of all processes together."""
        return len(self.labels) if self.total is None else self.total

    def split(self, sizes: list[int]) -> Iterator["Batch"]:
        """Split a batch into parts of these sizes."""
        for images, labels in zip(torch.split(self.images, sizes), torch.split(self.labels, sizes), strict=True):
            yield replace(self, images=images, labels=labels)


class Learner:
    """A network with its optimizers and constraints; `step` is one step of any method."""

    def __init__(
        self, net: MultiDomainNet, recipe: Recipe, processes: Processes = ALONE, teacher: Teacher | None = None
    ) -> None:
        self.net = net
        self.recipe = recipe
        self.processes = processes
        self.chosen = choose_method(recipe)
        training = recipe.training
        rows = [parameter for adapter in net.adapters for parameter in adapter.adam_rows()]
        groups = parameter_groups(net, rows, training)
        on_gpu = net.device.type == "cuda"
        if training.quantize:
            net.rounding = Rounding(net.network, net.switches, len(net.domains)).to(net.device)
        self.sgd = SGD(groups, lr=training.lr, momentum=training.momentum, fused=on_gpu)
        if on_gpu:  # rates are tensors there, so that a captured step can read them
            for group in self.sgd.param_groups:
                group["lr"] = torch.tensor(training.lr, device=net.device)
            if training.compile and processes.world == 1:  # compiled norms would not see the other processes
                net.compile_network()
        self.uses_bfloat16 = training.precision == "bfloat16" or (
            training.precision == "auto" and on_gpu and torch.cuda.is_bf16_supported()
        )
        # in float32 on a CPU it is a fifth faster too, but published methods keep the rounding they always had there
        fast = self.uses_bfloat16 or (self.chosen.method.keeps_budget and not on_gpu)
        self._format = torch.channels_last if fast else torch.contiguous_format
        net.to(memory_format=self._format)
        self.teacher = teacher
        if teacher:
            teacher.net.to(memory_format=self._format)
        self._is_domain_DD = torch.eye(len(net.domains), dtype=torch.bool, device=net.device)
        rates = (training.dual_rate, len(net.domains), training.sharing_dual_rate)
        self.constraints = Constraints(self.chosen, recipe.budget.kernels, *rates).to(net.device)
        add = self.constraints.add_gradients
        self._add_constraints = torch.compile(add) if on_gpu else add
        self.adams = [RowAdam(parameter) for parameter in rows]
        own = own_rates(net)
        self._row_rates = [own.get(parameter, training.switch_rate) for parameter in rows]
        self._row_lrs = [torch.tensor(rate, dtype=torch.float64, device=net.device) for rate in self._row_rates]
        # what methods update by the mean of a batch; norms are apart
        self._means = [
            b
            for adapter in (*net.adapters, *self._rounding())
            for b in adapter.buffers(recurse=False)
            if b.is_floating_point()
        ]
        # this epoch's sum of losses, correct answers and images seen, of this process
        self.tally_D3 = torch.zeros(len(net.domains), 3, dtype=torch.float64, device=net.device)

    def step(self, batches: Sequence[Batch], factor: float = 1.0) -> None:
        """Take one optimizer step at a factor of the learning rates."""
        self.set_rates(factor)
        self.update(batches)

    def _rounding(self) -> list[Rounding]:
        return [] if self.net.rounding is None else [self.net.rounding]

    @property
    def is_rounding(self) -> bool:
        """Whether steps round kernels and activations to 8 bits."""
        return any(rounding.is_on for rounding in self._rounding())

    def move_to(self, position: float) -> None:
        """Do from now on what the run has come to; `position` counts the epochs before the next step."""
        for adapter in self.net.adapters:
            adapter.move_to(position, self.recipe.training.num_epochs)
        for rounding in self._rounding():
            until = self.chosen.options.until if isinstance(self.chosen.options, Options) else 0.0
            rounding.is_on = position >= rounding_start(self.recipe.training, until)

    def set_rates(self, factor: float) -> None:
        """Set all learning rates to a factor of the recipe's; on a GPU nothing waits for it."""
        for group in self.sgd.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(group["base_lr"] * factor)
            else:
                group["lr"] = group["base_lr"] * factor
        for lr, rate in zip(self._row_lrs, self._row_rates, strict=True):
            lr.fill_(rate * factor)

    def update(self, batches: Sequence[Batch]) -> None:
        """Learn from one batch: cross-entropy, then the closed-form gradients of the budget and sharing losses.

        Nothing is read back from the device, so a GPU can capture the whole update.
        """
        self.sgd.zero_grad(set_to_none=True)
        for adam in self.adams:
            adam.parameter.grad = None
        total = sum(batch.size for batch in batches)
        for batch in batches:
            portions = self.portions(batch.size)
            for part, portion in zip(batch.split([len(portion.rows) for portion in portions]), portions, strict=True):
                self._learn(part, portion, total)
        self._sum_gradients(sorted({batch.domain for batch in batches}))
        self._begin_momenta()
        self.sgd.step()
        active_D = torch.stack([self._is_domain_DD[batch.domain] for batch in batches]).any(0)
        switches = self.net.switches
        moved_D = self._add_constraints(switches, active_D) if switches else active_D
        for adam, lr in zip(self.adams, self._row_lrs, strict=True):
            is_switches = switches is not None and adam.parameter is switches.scores_DM
            adam.step(moved_D if is_switches else active_D, lr)

    def _begin_momenta(self) -> None:
        """Start the momentum of parameters in their first step; torch's fused SGD fails if only some lack it."""
        for group in self.sgd.param_groups:
            for parameter in group["params"]:
                if parameter.is_cuda and parameter.grad is not None and parameter not in self.sgd.state:
                    self.sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    def portions(self, images: int) -> list[Portion]:
        """Return which images of a batch this process computes, part by part."""
        return self.processes.portions(images, self.recipe.training.accumulate)

    def autocast(self) -> torch.autocast:
        """Return the context in which the network computes."""
        # a captured step must cast weights itself instead of finding them in a cache
        return torch.autocast(self.net.device.type, torch.bfloat16, enabled=self.uses_bfloat16, cache_enabled=False)

    def _learn(self, batch: Batch, portion: Portion, total: int) -> None:
        domain = self.net.domains[batch.domain]
        with self.autocast(), SyncedNorms(self.processes) if portion.is_split else nullcontext():
            images = batch.images.contiguous(memory_format=self._format)
            features, logits = self.net.features_and_logits(images, domain)
        logits = logits.float() if self.uses_bfloat16 else logits
        smoothing = self.recipe.training.label_smoothing
        loss = F.cross_entropy(logits, batch.labels, batch.class_weights, label_smoothing=smoothing, reduction="sum")
        whole = loss
        if self.teacher:
            with self.autocast():
                lesson = self.teacher.lesson(images, domain)
            whole = taught_loss(loss, logits, features, lesson)
        if (extra := self.net.extra_loss(domain, logits, batch.labels)) is not None:
            whole = whole + len(batch.labels) * extra
        (whole / (total / portion.weight)).backward()  # type: ignore[no-untyped-call]
        self.processes.average_(self._means, len(batch.labels))
        if portion.counts:
            self._count(batch, loss.detach(), logits.detach())

    def _sum_gradients(self, domains: Sequence[int]) -> None:
        """Sum the gradients of all processes; of rows per domain, only those of the batch have any."""
        rows = [(adam.parameter.grad, domain) for adam in self.adams for domain in domains]
        others = [parameter.grad for group in self.sgd.param_groups for parameter in group["params"]]
        gradients = [*(gradient_DM[domain] for gradient_DM, domain in rows if gradient_DM is not None), *others]
        self.processes.sum_([gradient for gradient in gradients if gradient is not None])

    def _count(self, batch: Batch, loss: Tensor, logits: Tensor) -> None:
        correct = (logits.argmax(1) == batch.labels).sum()
        seen = torch.full_like(loss, len(batch.labels))
        self.tally_D3[batch.domain] += torch.stack([loss, correct.to(loss.dtype), seen]).double()

    def synchronize(self) -> None:
        """Take over the state of the first process, except for the tally, which every process counts for itself."""
        self.processes.broadcast_([tensor for name, tensor in self.tensors().items() if name != "tally"])

    def whole_tally(self) -> Tensor:
        """Return the tally of all processes; all of them must ask for it."""
        tally_D3 = self.tally_D3.clone()
        self.processes.sum_([tally_D3])
        return tally_D3

    def tensors(self) -> dict[str, Tensor]:
        """Return all state that the next step depends on by name, without the frozen backbone."""
        state = network_state(self.net)
        names = {id(parameter): name for name, parameter in self.net.named_parameters()}
        for parameter, entry in self.sgd.state.items():
            if entry.get("momentum_buffer") is not None:
                state[f"momentum/{names[id(parameter)]}"] = entry["momentum_buffer"]
        for adam in self.adams:
            state |= {f"adam/{names[id(adam.parameter)]}/{name}": tensor for name, tensor in adam.tensors().items()}
        state |= {f"multiplier/{name}": tensor for name, tensor in self.constraints.tensors().items()}
        for rounding in self._rounding():
            state |= {f"rounding/{name}": tensor for name, tensor in rounding.state_dict().items()}
        return state | {"tally": self.tally_D3}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from state that `tensors` returned."""
        for name, parameter in self.net.named_parameters():
            if f"momentum/{name}" in tensors:
                self.sgd.state[parameter]["momentum_buffer"] = torch.empty_like(parameter)  # also in memory format
        copy_state(tensors, self.tensors())
        if not self.processes.is_first:
            self.tally_D3.zero_()  # the saved one is that of all processes


def parameter_groups(net: MultiDomainNet, rows: Sequence[Tensor], training: Training) -> list[dict[str, object]]:
    """Sort the parameters that SGD learns by learning rate and weight decay; `rows` are Adam's."""
    row_ids = {id(parameter) for parameter in rows}
    inside = {id(parameter) for adapter in net.adapters for parameter in adapter.parameters()}
    own = own_rates(net)
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for parameter in net.parameters():
        if not parameter.requires_grad or id(parameter) in row_ids:
            continue
        is_matrix = parameter.ndim > 1  # or a kernel, as opposed to biases, norms and scores
        usual = (training.weight_lr or training.lr) if is_matrix and id(parameter) in inside else training.lr
        rate = own.get(parameter, usual)
        groups.setdefault((rate, training.weight_decay if is_matrix else 0.0), []).append(parameter)
    return [
        {"params": parameters, "base_lr": rate, "weight_decay": decay} for (rate, decay), parameters in groups.items()
    ]


def own_rates(net: MultiDomainNet) -> dict[nn.Parameter, float]:
    """Return the parameters whose learning rate the method sets."""
    return {parameter: rate for adapter in net.adapters for parameter, rate in adapter.rates().items()}


def network_state(net: MultiDomainNet) -> dict[str, Tensor]:
    """Return what a network has learned by its name in checkpoints, without the frozen backbone and the rounding."""
    others = ("network.", "rounding.")
    return {f"net/{key}": tensor for key, tensor in net.state_dict().items() if not key.startswith(others)}


@torch.no_grad()
def copy_state(saved: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Copy saved tensors into those of the same name; all of them must be there and fit."""
    for name, tensor in state.items():
        if name not in saved or saved[name].shape != tensor.shape:
            raise TrainingError(
                f"the checkpoint holds no {name!r} of shape {tuple(tensor.shape)}; "
                "it was probably written by another version of prunus: train again, or use that version"
            )
        tensor.copy_(saved[name])
