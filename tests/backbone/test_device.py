"""The device is chosen by name; one that is not there is refused with those that are."""

import pytest
import torch

from prunus.backbone.device import choose_device
from prunus.errors import BackboneError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_without_a_gpu_cuda_is_refused_and_not_advised(name: str) -> None:
    with pytest.raises(BackboneError) as caught:
        choose_device(name)
    assert str(caught.value) == f"the device '{name}' cannot be used: no CUDA device was found; use auto or cpu"


def test_an_unknown_device_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BackboneError, match=r"the device 'abacus' cannot be used: .*; choose auto, cpu or cuda"):
        choose_device("abacus")
