"""A bundle of floats becomes an 8-bit one that a file can hold and that computes nearly the same."""

from pathlib import Path

import numpy as np
import pytest

from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import bundle_size, read_bundle, write_bundle
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import Coder, make_coder
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import random_bundle, varied_graph


def _coder(seed: int) -> Coder:
    bundle = random_bundle(varied_graph(seed), 12, seed=seed)
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle).items()}
    return make_coder(bundle, calibrate(bundle, images, "largest"), "largest")


@pytest.mark.parametrize("seed", range(5))
def test_an_8_bit_file_computes_nearly_what_floats_compute(seed: int, tmp_path: Path) -> None:
    coder = _coder(seed)
    possible = possible_integers(coder.bundle)
    images = next(drawn_images(coder.bundle)["a"].held_out.prepared(50))
    for integers, most in ((possible, 0.1), (possible[::3], 0.1), ((), 0.03)):
        bundle = coder.coded(integers)
        write_bundle(tmp_path / "m.prunus", bundle, "int8")
        assert (tmp_path / "m.prunus").stat().st_size <= bundle_size(coder.bundle, "int8")
        for domain in bundle.domains:
            expected = NumpyEngine(coder.bundle).logits(images, domain)
            logits = NumpyEngine(read_bundle(tmp_path / "m.prunus")).logits(images, domain)
            assert np.abs(logits - expected).max() <= most * np.abs(expected).max()


def test_wide_layers_keep_their_weights_to_half_precision() -> None:
    coder = _coder(0)
    bundle = coder.coded((), ("stem", "valid"))
    assert bundle.manifest.wide == ("stem", "valid")
    assert bundle.arrays["kernels/stem"].dtype == np.float16
    assert "scale/stem" not in bundle.arrays
    kept = bundle.union("stem")
    np.testing.assert_allclose(bundle.weight("stem", kept), coder.bundle.weight("stem", kept), rtol=1e-3, atol=1e-6)
    assert bundle.arrays["kernels/narrow"].dtype == np.int8
