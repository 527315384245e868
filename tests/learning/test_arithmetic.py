"""Settings of torch that training changes and restores."""

import os
from contextlib import nullcontext
from typing import Literal

import pytest
import torch

from prunus.config import Training
from prunus.errors import TrainingError
from prunus.learning.arithmetic import arithmetic, prepare_determinism


def test_random_numbers_and_settings_are_restored_also_after_an_error() -> None:
    torch.manual_seed(3)
    before = (torch.backends.cudnn.benchmark, torch.are_deterministic_algorithms_enabled())
    expected = torch.rand(2)
    torch.manual_seed(3)
    with (
        pytest.raises(ValueError, match="inside"),
        arithmetic(Training(deterministic=True), torch.device("cpu")),
    ):
        torch.manual_seed(8)
        raise ValueError("inside")
    assert torch.equal(torch.rand(2), expected)
    assert (torch.backends.cudnn.benchmark, torch.are_deterministic_algorithms_enabled()) == before


def test_cublas_is_told_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    prepare_determinism(Training())
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    prepare_determinism(Training(deterministic=True))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    prepare_determinism(Training(deterministic=True))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_an_operation_that_cannot_be_deterministic_is_named() -> None:
    with (
        pytest.raises(
            TrainingError, match=r"torch's adaptive_pool_backward_cuda has no deterministic version on a GPU"
        ),
        arithmetic(Training(deterministic=True), torch.device("cpu")),
    ):
        raise RuntimeError("adaptive_pool_backward_cuda does not have a deterministic implementation, but you set ...")
    with pytest.raises(RuntimeError, match="out of memory"), arithmetic(Training(), torch.device("cpu")):
        raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize("precision", ["auto", "float32", "bfloat16"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_gpu_rounds_products_only_if_asked(
    precision: Literal["auto", "float32", "bfloat16"], deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.random, "fork_rng", lambda _devices: nullcontext())  # without a GPU
    training = Training(precision=precision, deterministic=deterministic)
    before = (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark)
    with arithmetic(training, torch.device("cuda")):
        assert torch.backends.cudnn.allow_tf32 is (precision != "float32")
        assert torch.backends.cudnn.benchmark is not deterministic
        assert torch.are_deterministic_algorithms_enabled() is deterministic
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark) == before
