"""The steps of integers have the factors, limits and tables of every domain."""

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError
from prunus.graph.operations import OPERATIONS
from prunus.integers.factors import INTEGER
from prunus.integers.program import lower
from prunus.integers.steps import AffineStep, ConvolutionStep, JoinStep, TableStep
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph

ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}


def test_every_operation_has_an_integer_step_except_layer_norms_and_moves_of_tokens() -> None:
    assert set(INTEGER) == set(OPERATIONS) - {"layer_norm", "affine_map", "join_pixels", "rearrange"}


def test_the_correction_of_the_zero_depends_on_the_kernels_that_a_domain_uses() -> None:
    bundle = random_coded_bundle(make_graph(convolution("a", [0], (3, 3)), convolution("b", [1], (5, 3), **ONE)), 6)
    for step in lower(bundle).steps:
        if not isinstance(step, ConvolutionStep):
            continue
        for index, domain in enumerate(bundle.domains):
            codes = bundle.weight_codes(step.conv.layer, bundle.mask(domain, step.conv.layer))
            scale, zero = (bundle.arrays[f"coding/{domain}/{role}"].astype(np.float64) for role in ("scale", "zero"))
            s_x, z_x, s_y, z_y = scale[step.number], zero[step.number], scale[step.number + 1], zero[step.number + 1]
            gain, bias = (bundle.tensor(domain, step.number, role) for role in ("scale", "bias"))
            real = bundle.arrays[f"scale/{step.conv.layer}"].astype(np.float64) * s_x * (1 if gain is None else gain)
            offset = (0 if bias is None else bias) - real * z_x * codes.sum(axis=(1, 2, 3))
            np.testing.assert_allclose(step.multipliers[index], real / s_y, rtol=1e-6)
            np.testing.assert_allclose(step.offsets[index], offset / s_y + z_y, rtol=1e-5, atol=1e-4)


def test_an_activation_is_a_limit_or_a_table() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3), activation="relu6"),
        {"op": "affine", "inputs": (1,), "activation": "relu"},
        {"op": "affine", "inputs": (2,), "activation": "silu"},
    )
    bundle = random_coded_bundle(graph, 6)
    conv, affine = (
        next(s for s in lower(bundle).steps if isinstance(s, kind)) for kind in (ConvolutionStep, AffineStep)
    )
    for index, domain in enumerate(bundle.domains):
        scale, zero = (bundle.arrays[f"coding/{domain}/{role}"] for role in ("scale", "zero"))
        assert conv.lows[index] == zero[1]
        assert conv.highs[index] == min(255, int(zero[1]) + round(6 / float(scale[1])))
        assert (affine.lows[index], affine.highs[index]) == (zero[2], 255)
    (table,) = (step for step in lower(bundle).steps if isinstance(step, TableStep))
    assert table.tables.shape == (2, 256)


def test_channels_are_joined_without_a_table_where_codings_are_the_same() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)), convolution("b", [0], (4, 3)), {"op": "cat", "inputs": (1, 2)}, *()
    )
    bundle = random_coded_bundle(graph, 6)
    for role in ("scale", "zero"):
        row = bundle.arrays[f"coding/a/{role}"]
        row[3] = row[1]
    (join,) = (step for step in lower(bundle).steps if isinstance(step, JoinStep))
    (first, second), (third, fourth) = join.tables
    assert first is None
    assert second is not None
    assert third is not None
    assert fourth is not None


@pytest.mark.parametrize("name", ["norm/a/0.scale", "norm/a/0.bias"])
def test_factors_that_a_sum_could_overflow_with_are_refused(name: str) -> None:
    bundle = random_coded_bundle(make_graph(convolution("a", [0], (4, 3))), 6)
    role = name.rpartition("/")[2]
    arrays = {key: array for key, array in bundle.arrays.items() if not key.endswith(f"/{role}")}
    arrays |= {f"norm/{domain}/{role}": np.full(4, 3e38, np.float32) for domain in bundle.domains}
    with pytest.raises(BundleError, match="the factors of its 8-bit operation 0 are too large"):
        lower(Bundle(bundle.manifest, arrays))


def test_an_activation_that_overflows_gives_a_table_all_the_same() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)), {"op": "affine", "inputs": (1,), "activation": "leaky_relu", "slope": 1e308}
    )
    bundle = random_coded_bundle(graph, 6)
    bundle.arrays["coding/a/scale"][:] = 2**40
    bundle.arrays["coding/a/zero"][:] = 100
    (table,) = (step for step in lower(bundle).steps if isinstance(step, TableStep))
    assert table.tables[0].tolist() == [0] * 100 + list(range(100, 256))
