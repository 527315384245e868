"""Choose the exit of every domain that may leave the network early, on images that were held out of training."""

from collections.abc import Sequence

import torch

from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner
from prunus.learning.scoring import in_parts, views
from prunus.methods.early_exits import Exits

NOTHING_HELD_OUT = (
    "no images are held out that could choose exits, so every domain uses the last one; set training.splits = 'train'"
)


@torch.no_grad()
def choose_exits(learner: Learner, data: Sequence[DomainData]) -> str | None:
    """Measure all exits of every domain; several processes compute the same. Return what is wrong, if anything is."""
    found = [adapter for adapter in learner.net.adapters if isinstance(adapter, Exits)]
    if not found:
        return None
    if all(domain.validation is None for domain in data):
        return NOTHING_HELD_OUT
    learner.net.eval()
    for exits in found:
        for domain in data:
            if domain.validation is not None:
                accuracy_E = _accuracies(learner, exits, domain.name, domain.validation, domain.preprocess)
                exits.measured(learner.net.index(domain.name), accuracy_E)
    learner.net.train()
    learner.synchronize()
    return None


def _accuracies(learner: Learner, exits: Exits, domain: str, images: ImageSet, preprocess: Preprocess) -> torch.Tensor:
    """Return the accuracy of every exit on the central crops of images, the last exit at the end."""
    net = learner.net
    labels_N = torch.from_numpy(images.labels).to(net.device)
    answers = []
    with learner.autocast(), exits.recording() as early:
        for part in in_parts(images.images):
            for view in views(part, preprocess, 1, net.device):
                last = net(view, domain)
                answers.append(torch.stack([logits.argmax(1) for logits in (*early, last)]))
    return (torch.cat(answers, 1) == labels_N).float().mean(1)
