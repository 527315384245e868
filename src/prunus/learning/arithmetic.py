"""How torch computes while a network learns: fast algorithms, or those that always round the same."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from prunus.config import Training


def prepare_determinism(training: Training) -> None:
    """Ask cuBLAS for repeatable products, which it decides when it is first used."""
    if training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def arithmetic(training: Training, device: torch.device) -> Iterator[None]:
    """Choose torch's algorithms for a training run, and restore them and its random numbers afterwards."""
    on_gpu = device.type == "cuda"
    benchmark = torch.backends.cudnn.benchmark
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng([device] if on_gpu else []):
        try:
            if on_gpu:
                torch.backends.cudnn.benchmark = not training.deterministic
                torch.use_deterministic_algorithms(training.deterministic)
            yield
        finally:
            torch.backends.cudnn.benchmark = benchmark
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
