"""Learn from the answers and the features of a trained network, besides the labels (Hinton et al., 2015)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.masks.network import MultiDomainNet

ANSWERS = 0.7  # share of the teacher's answers in the loss, against the labels
TEMPERATURE = 2.0
FEATURES = 1.0  # weight of the distance to the teacher's features


@dataclass(frozen=True)
class Lesson:
    """What a teacher computes for a batch; `features` is None where it has exited early."""

    logits: Tensor
    features: Tensor | None


class Teacher:
    """A trained network of the same domains, which does not learn any more.

    Args:
        frozen: the domains that the network's unchanged backbone teaches -> what turns its features into logits.
    """

    def __init__(
        self, net: MultiDomainNet, frozen: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType({})
    ) -> None:
        self.net = net.requires_grad_(False).eval()
        self.frozen = frozen

    @torch.no_grad()
    def lesson(self, images: Tensor, domain: str) -> Lesson:
        """Return the answers to a batch."""
        features: Tensor | None
        if classify := self.frozen.get(domain):
            features = self.net.network(images)
            logits = classify(features)
        else:
            features, logits = self.net.features_and_logits(images, domain)
        return Lesson(logits.float(), None if features is None else features.float())


def taught_loss(loss: Tensor, logits: Tensor, features: Tensor | None, lesson: Lesson) -> Tensor:
    """Mix the loss of the labels, summed over a batch, with the distances to the teacher's answers and features."""
    mine, theirs = ((values / TEMPERATURE).log_softmax(1) for values in (logits, lesson.logits))
    distance = F.kl_div(mine, theirs, reduction="sum", log_target=True)
    whole = (1 - ANSWERS) * loss + ANSWERS * TEMPERATURE**2 * distance
    if features is None or lesson.features is None or features.shape != lesson.features.shape:
        return whole  # a teacher with another backbone teaches its answers only
    gap = (features.float() - lesson.features).square().mean() / lesson.features.square().mean()
    return whole + FEATURES * len(logits) * gap
