"""Operations check their fields, name their tensors, and count their windows."""

from typing import get_args

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from prunus.graph.channels import BACKWARD, FORWARD
from prunus.graph.operations import OPERATIONS, Affine, ChannelRule, Conv, Graph, LayerNorm, Mean, Pool, parse_operation
from tests.makers.graph_bundles import convolution, make_graph

GRAPH: TypeAdapter[Graph] = TypeAdapter(Graph)
CONV = convolution("c", [0], (4, 3))


def _pool(**fields: object) -> Pool:
    usual = {"op": "pool", "inputs": (0,), "kind": "mean", "kernel": (3, 3), "stride": (2, 2)}
    return Pool.model_validate(usual | fields)


def test_unknown_operations_and_settings_are_refused() -> None:
    for wrong in ({"op": "fft", "inputs": [0]}, CONV | {"colour": 3}, CONV | {"stride": [0, 1]}, CONV | {"inputs": []}):
        with pytest.raises(ValidationError):
            GRAPH.validate_python([wrong])


def test_an_unknown_operation_lists_the_known_and_a_wrong_field_is_named() -> None:
    with pytest.raises(ValueError, match="unknown operation 'fft'; known: conv, affine, layer_norm, add, mul, cat"):
        parse_operation({"op": "fft", "inputs": [0]})
    with pytest.raises(ValueError, match=r"conv stride\.0: Input should be greater than or equal to 1"):
        parse_operation(CONV | {"stride": (0, 1)})
    with pytest.raises(ValueError, match="unknown operation 'None'"):
        parse_operation([])


def test_every_operation_declares_its_name_its_inputs_and_a_known_channel_rule() -> None:
    for name, kind in OPERATIONS.items():
        assert get_args(kind.model_fields["op"].annotation) == (name,)
        assert kind.model_fields["op"].is_required()
        assert kind.model_fields["inputs"].is_required()
        assert kind.channel_rule in get_args(ChannelRule)
    assert set(FORWARD) == set(BACKWARD) == set(get_args(ChannelRule))


def test_a_graph_is_the_same_after_writing_and_reading() -> None:
    graph = make_graph(CONV | {"activation": "elu", "slope": 0.5}, {"op": "append_zeros", "inputs": (1,), "count": 2})
    assert GRAPH.validate_json(GRAPH.dump_json(graph, exclude_defaults=True)) == graph


def test_tensors_have_a_number_per_channel_and_ones_a_kernel() -> None:
    conv = Conv.model_validate(CONV | {"kernel": (3, 5)})
    assert conv.tensors(3) == {"scale": (4,), "bias": (4,), "ones": (4, 3, 5)}
    assert Affine(op="affine", inputs=(0,)).tensors(7) == {"scale": (7,), "bias": (7,)}
    assert LayerNorm(op="layer_norm", inputs=(0,), eps=0).tensors(7) == {"scale": (7,), "bias": (7,)}
    assert Mean(op="mean", inputs=(0,)).tensors(7) == {}


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"pads": (1, 1, 1, 1)}, [2, 3, 2]),  # pixels of the image: -1..1, 1..3, 3..5 of 5
        ({"pads": (1, 1, 1, 1), "count_pads": True}, [3, 3, 3]),
        ({"stride": (3, 3), "ceil": True}, [3, 2]),  # the last window ends after the image
        ({"stride": (3, 3), "pads": (0, 0, 1, 1), "count_pads": True, "ceil": True}, [3, 3]),
    ],
)
def test_a_mean_divides_by_the_pixels_that_it_counts(fields: dict[str, object], rows: list[int]) -> None:
    pool = _pool(**fields)
    _, height, width = pool.shape([(1, 5, 5)])
    pixels = pool.window_pixels((5, 5), (height, width))
    assert pixels.tolist() == np.outer(rows, rows).tolist()


def test_pads_end_with_the_last_window() -> None:
    assert _pool(stride=(3, 3), ceil=True).pads_to_last_window((5, 5), (2, 2)) == (0, 0, 1, 1)
    assert _pool(pads=(1, 0, 1, 2)).pads_to_last_window((5, 6), (3, 3)) == (1, 0, 1, 1)
    assert _pool(pads=(1, 1, 1, 1)).pads_to_last_window((6, 6), (3, 3)) == (1, 1, 0, 0)


def test_constants_stay_constant_but_under_means_over_padding() -> None:
    assert _pool().keeps_constants()
    assert _pool(count_pads=True).keeps_constants()
    assert _pool(pads=(1, 1, 1, 1)).keeps_constants()
    assert not _pool(pads=(1, 1, 1, 1), count_pads=True).keeps_constants()
    assert _pool(pads=(1, 1, 1, 1), count_pads=True, kind="max").keeps_constants()
    assert _pool().on_uniform_images() == Mean(op="mean", inputs=(0,))
    small = Conv.model_validate(CONV | {"dilation": (2, 2)}).on_uniform_images()
    assert small == Conv.model_validate(CONV | {"kernel": (1, 1), "pads": (0, 0, 0, 0)})
