"""Meters: a file's usage is that of the file really written, and masks are counted kernel by kernel."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.budgets.limits import Usage
from prunus.budgets.meter import HEADROOM, FileMeter, MaskMeter, RememberingMeter, layer_masks
from prunus.bundle.file import bundle_bytes, read_bundle
from prunus.checkpoints.checkpoint import Position
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.errors import RecipeError
from prunus.lowering.pack import Description, lower, pack
from prunus.masks.layout import switch_layout
from prunus.masks.pool import PooledSwitches
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.training.promise import make_keeper
from tests.makers.drawn_budgets import GRANULARITIES, PREPROCESS, SIZE, Drawn, draw_case

POSITION = Position(step=7, total_steps=9)


def _file_meter(drawn: Drawn, dtype: str = "float32") -> FileMeter:
    story = provenance(drawn.identity, POSITION)
    description = Description("drawn", drawn.net.dense_bytes(), domain_entries(drawn.identity), story)
    assert drawn.net.switches is not None
    return FileMeter(lower(drawn.net), description, drawn.net.switches.layout, dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(8))
def test_a_file_takes_what_was_measured_before_it_was_written(seed: int, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    drawn = draw_case(rng, GRANULARITIES[seed % len(GRANULARITIES)])
    pool = drawn.net.eval().switches
    assert isinstance(pool, PooledSwitches)
    mask = torch.from_numpy(rng.random(pool.open_DM.shape) < 0.6)
    measured = _file_meter(drawn, dtype).usage(mask)
    pool.scores_DM.data.copy_(torch.where(mask, 1.0, -1.0))
    bundle = pack(drawn.net, drawn.backbone, domain_entries(drawn.identity), provenance(drawn.identity, POSITION))
    path = tmp_path / "model.prunus"
    path.write_bytes(bundle_bytes(bundle, dtype))  # type: ignore[arg-type]
    read = read_bundle(path)
    kernels = weights = 0
    macs = dict.fromkeys(read.domains, 0)
    for layer, conv in read.manifest.convs.items():
        area = conv.kernel[0] * conv.kernel[1]
        kernels += int(read.union(layer).sum())
        weights += read.arrays[f"kernels/{layer}"].size
        for domain in read.domains:
            macs[domain] += int(read.mask(domain, layer).sum()) * area * conv.positions
    assert measured == Usage(kernels, weights, path.stat().st_size + HEADROOM, tuple(macs.values()))


def test_measuring_changes_nothing() -> None:
    drawn = draw_case(np.random.default_rng(0), "kernel")
    before = {name: tensor.clone() for name, tensor in drawn.net.state_dict().items()}
    meter = _file_meter(drawn)
    assert drawn.net.switches is not None
    ones = torch.ones_like(drawn.net.switches.masks())
    whole = meter.usage(ones)
    meter.usage(torch.zeros_like(ones))
    assert meter.usage(ones) == whole
    assert all(torch.equal(before[name], tensor) for name, tensor in drawn.net.state_dict().items())


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_masks_are_spread_to_the_kernels_of_every_layer(granularity: str) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 6, 1), nn.Conv2d(6, 2, 1))
    layout = switch_layout(network, granularity)
    mask = torch.rand(2, layout.num_switches, generator=torch.Generator().manual_seed(0)) < 0.5
    masks = layer_masks(layout, mask)
    views = layout.views(mask)
    for conv in layout.convs:
        shape = (2, conv.out_channels, conv.in_channels)
        assert masks[conv.name].shape == shape
        for domain, output, index in np.ndindex(shape):
            view = views[conv.name][domain, ..., 0, 0]
            switch = view[min(output, len(view) - 1), min(index, view.shape[1] - 1)]
            assert masks[conv.name][domain, output, index] == bool(switch)


class _Moody(nn.Module):
    """A network whose path depends on the image, so that no file can hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 5, 3, padding=1)
        self.other = nn.Conv2d(5, 5, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.stem(images))
        if x.mean() > -1:
            x = torch.relu(self.other(x))
        return x.mean((2, 3))


def _moody() -> Drawn:
    network = _Moody()
    backbone = Backbone("moody", network, PREPROCESS, probe_network(network, SIZE))
    drawn = draw_case(np.random.default_rng(0), "kernel")
    net = adapt(backbone, drawn.net.classes, "exact", 0, Options())
    return replace(drawn, net=net, backbone=backbone)


def test_a_network_that_no_file_can_hold_is_counted_by_its_masks() -> None:
    drawn = _moody()
    limited = drawn.with_budget({"kernels": 0.5, "macs": 9 * 64 * 15})
    keeper = make_keeper(limited.net, limited.backbone, limited.identity)
    assert keeper is not None
    meter = keeper.meter()
    assert isinstance(meter, MaskMeter)
    mask = torch.rand(keeper.pool.open_DM.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    kernels = int(mask.any(0).sum())
    macs = tuple(9 * 64 * int(row.sum()) for row in mask)
    assert meter.usage(mask) == Usage(kernels, 9 * kernels, None, macs)
    keeper.finish()
    assert keeper.limits.are_kept(keeper.usage())
    assert max(keeper.usage().macs) == 9 * 64 * 15
    with pytest.raises(RecipeError, match=r"budget\.bytes needs a network that a model file can hold"):
        make_keeper(limited.net, limited.backbone, drawn.with_budget({"bytes": 10**6}).identity)


def test_a_convolution_that_never_runs_takes_nothing() -> None:
    layout = switch_layout(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)))
    usage = MaskMeter(layout, {"0": 36}).usage(torch.ones(2, layout.num_switches, dtype=torch.bool))
    assert usage == Usage(12, 108, None, (108 * 36, 108 * 36))


def test_a_remembering_meter_measures_equal_masks_once_and_others_anew() -> None:
    asked = []

    class Counting:
        def usage(self, mask_DM: Tensor) -> Usage:
            asked.append(mask_DM)
            return Usage(int(mask_DM.sum()), 0, None, ())

    meter = RememberingMeter(Counting())
    first, second = torch.tensor([[True, False, True]]), torch.tensor([[False, False, True]])
    assert [meter.usage(mask).kernels for mask in (first, second, first.clone(), second)] == [2, 1, 2, 1]
    assert len(asked) == 2
