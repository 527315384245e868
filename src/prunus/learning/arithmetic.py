"""How torch computes while a network learns: fast algorithms, or those that always round the same."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from prunus.config import Training
from prunus.errors import TrainingError


def prepare_determinism(training: Training) -> None:
    """Ask cuBLAS for repeatable products, which it decides when it is first used."""
    if training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def arithmetic(training: Training, device: torch.device) -> Iterator[None]:
    """Set torch's algorithms for training; restore them and the random numbers at the end."""
    on_gpu = device.type == "cuda"
    benchmark = torch.backends.cudnn.benchmark
    tf32 = torch.backends.cudnn.allow_tf32
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng([device] if on_gpu else []):
        try:
            if on_gpu:
                torch.backends.cudnn.benchmark = not training.deterministic
                torch.backends.cudnn.allow_tf32 = training.precision != "float32"  # torch's default rounds to 10 bits
                torch.use_deterministic_algorithms(training.deterministic)
            yield
        except RuntimeError as error:
            if "deterministic implementation" not in str(error):
                raise
            operation = str(error).split(" ")[0]
            raise TrainingError(
                f"training.deterministic = true cannot be kept: torch's {operation} has no deterministic version on a "
                "GPU; choose another method or network, or set training.deterministic = false"
            ) from None
        finally:
            if on_gpu:  # elsewhere nothing was set, and setting it imports torch's compiler
                torch.backends.cudnn.benchmark = benchmark
                torch.backends.cudnn.allow_tf32 = tf32
                torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
