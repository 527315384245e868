"""torchvision's augmentation policies, with randomness that belongs to an image and not to a process.

Legend: B = batch, R = stored side, S = input side of the network.
"""

import importlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Bytes, Integers
from prunus.config import PYTHON_POLICY, Policy
from prunus.data.own.transforms import passed_transform
from prunus.errors import MissingExtraError, UnknownNameError

Transform = Callable[[Tensor], Tensor]  # of one image, bytes in and bytes out

CROP: Policy = "random_resized_crop"

# In the order in which they are applied. The crop comes first, so that the others touch fewer pixels. Jitter comes
# last: the other two may equalize an image, which would undo it.
POLICIES: dict[Policy, Callable[[ModuleType, int], Transform]] = {
    CROP: lambda v2, size: v2.RandomResizedCrop(size, antialias=True),
    "rand_augment": lambda v2, size: v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR),
    "trivial_augment": lambda v2, size: v2.TrivialAugmentWide(interpolation=v2.InterpolationMode.BILINEAR),
    "color_jitter": lambda v2, size: v2.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4),
}


def make_policy(names: Collection[str], size: int, mirror: bool) -> Transform:
    """Compose a crop, the mirror, the named policies, whatever the order of the names, and an own transform."""
    for name in names:
        if name not in POLICIES and name != PYTHON_POLICY:
            raise UnknownNameError("augmentation policy", name, [*POLICIES, PYTHON_POLICY])
    own = [passed_transform()] if PYTHON_POLICY in names else []
    v2 = _torchvision_transforms()
    chosen = [make(v2, size) for name, make in POLICIES.items() if name in names]
    crop = chosen.pop(0) if CROP in names else v2.RandomCrop(size)
    mirrors = [v2.RandomHorizontalFlip()] if mirror else []
    composed: Transform = v2.Compose([crop, *mirrors, *chosen, *own])
    return composed


def image_seeds(seed: int, step: int, domain: int, indices: Integers) -> list[int]:
    """Return a seed for every image of a step.

    It depends on nothing but these four numbers, so neither resuming nor splitting a batch changes a pixel.
    """
    # torch's generator on the CPU reads 32 bits of its seed
    return [int(np.random.SeedSequence([seed, step, domain, int(i)]).generate_state(1)[0]) for i in indices]


def augment(stored_BRR: Tensor | Bytes, policy: Transform, seeds: Sequence[int]) -> Tensor:
    """Apply a policy to every image with its own seed: (B, 3, S, S), still bytes."""
    images_BRR = stored_BRR if isinstance(stored_BRR, Tensor) else torch.from_numpy(np.require(stored_BRR, None, "W"))
    with _restored_randomness(), _one_thread():
        if not seeds:  # one of several processes may have no image of a small batch
            return policy(images_BRR.new_zeros(images_BRR.shape[1:]))[None][:0]
        return torch.stack([_transform(image, policy, seed) for image, seed in zip(images_BRR, seeds, strict=True)])


def _transform(image_RR: Tensor, policy: Transform, seed: int) -> Tensor:
    # 2 us; torch.manual_seed takes 160 us, because it seeds every kind of device, and would change a GPU's randomness
    torch.default_generator.manual_seed(seed)
    return policy(image_RR)


@contextmanager
def _restored_randomness() -> Iterator[None]:
    """Keep torch's global generator, from which torchvision draws, as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute as a worker does: the mean of a large image depends on the number of threads that sum it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _torchvision_transforms() -> ModuleType:
    try:
        return importlib.import_module("torchvision.transforms.v2")  # only runs with a policy need it
    except ModuleNotFoundError:
        raise MissingExtraError("torchvision", "train", "an augmentation policy") from None
