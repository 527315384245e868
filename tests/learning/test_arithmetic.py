"""Settings of torch that training changes and restores."""

import os

import pytest
import torch

from prunus.config import Training
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
