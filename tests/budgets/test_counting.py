"""Kernels are counted as in the model file; where there is none, as the masks have them."""

import pytest
import torch

from prunus.budgets.counting import used_kernels
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_net

SIZES = dict.fromkeys(CLASSES, PREPROCESS)
FIRST = 3 * 6  # kernels of the first convolution


def test_kernels_that_nothing_reads_do_not_count() -> None:
    net = tiny_net()
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM.fill_(-1.0)
        net.switches.scores_DM[0, [0, 1, 2, 3, 4, 5, FIRST]] = 1.0  # two channels, of which the first is read
        net.switches.scores_DM[1, [6, 7, 8, FIRST + 2]] = 1.0
    costs = used_kernels(net, SIZES, packable=True)
    assert costs.num_kernels() == FIRST + 6 * 5
    assert [sum(layer.used[index] for layer in costs.layers) for index in (0, 1)] == [4, 4]
    assert sum(layer.union for layer in costs.layers) == 8
    assert [layer.union for layer in costs.layers] == [6, 2]


@pytest.mark.parametrize(("method", "usage"), [("piggyback", None), ("finetune", 1.0)])
def test_without_a_file_the_masks_are_counted(method: str, usage: float | None) -> None:
    net = tiny_net(method)
    costs = used_kernels(net, SIZES, packable=False)
    if usage is None:
        assert net.switches is not None
        usage = net.switches.kernel_masks()[0].double().mean().item()
    assert costs.usage("a") == pytest.approx(usage)
    assert [layer.name for layer in costs.layers] == ["all"]
