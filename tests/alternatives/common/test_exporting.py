"""Exported networks compute what the torch network does, for any number of images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from prunus.alternatives.common import exporting
from prunus.alternatives.common.exporting import to_onnx, write_onnx
from prunus.alternatives.common.joint import JointNetwork
from prunus.errors import BundleError
from prunus.timing.sessions import onnx_run
from tests.makers.own_networks import SIZE, leaf_net


@pytest.fixture
def network() -> JointNetwork:
    return JointNetwork(leaf_net(), 12, {"one": 3, "two": 4}, 0).eval()


def test_every_domain_has_an_output_for_any_number_of_images(network: JointNetwork) -> None:
    model = to_onnx(network, SIZE)
    for count in (1, 5):
        images = torch.randn(count, 3, SIZE, SIZE)
        with torch.no_grad():
            expected = dict(zip(network.domains, network(images), strict=True))
        for domain, logits in expected.items():
            np.testing.assert_allclose(onnx_run(model, 1, domain)(images.numpy()), logits.numpy(), atol=1e-5)


def test_eight_bits_are_smaller_and_near(network: JointNetwork, tmp_path: Path) -> None:
    images = np.random.default_rng(0).standard_normal((16, 3, SIZE, SIZE)).astype(np.float32)
    write_onnx(tmp_path / "eight.onnx", network, SIZE, images)
    model = (tmp_path / "eight.onnx").read_bytes()
    assert b"QuantizeLinear" in model
    with torch.no_grad():
        exact = network(torch.from_numpy(images))[1].numpy()
    found = onnx_run(model, 1, "two")(images)
    assert 0 < float(np.abs(found - exact).max()) < 0.1 * float(np.abs(exact).max())


def test_a_wrong_export_is_refused(network: JointNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "onnx_run", lambda *arguments: lambda images: onnx_run(*arguments)(images) + 0.1)
    with pytest.raises(BundleError, match="'one' does not compute what the network does"):
        to_onnx(network, SIZE)
