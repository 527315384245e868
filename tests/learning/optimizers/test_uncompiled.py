"""The same steps as torch's optimizers, bit for bit, without importing torch's compiler."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from prunus.learning.optimizers.uncompiled import LBFGS, SGD

PROGRAM = """
import sys
import prunus

training = {"epochs": 1, "batch_size": 8}
recipe = {"backbone": {"name": "wrn14_2", "size": 8}, "domains": ["domain"], "budget": 0.5, "training": training}
prunus.train(prunus.parse_recipe(recipe), "run", device="cpu")
print(sorted({"torch", "torch._dynamo", "torch._inductor", "sympy", "timm", "torchvision"} & set(sys.modules)))
"""

Steps = Callable[[type[torch.optim.Optimizer], Tensor], list[Tensor]]


def _sgd_steps(optimizer: type[torch.optim.Optimizer], weight: Tensor) -> list[Tensor]:
    """Take three steps, with a rate that changes, and store and restore the state between them."""
    sgd = optimizer([{"params": [weight], "weight_decay": 0.01}], lr=0.1, momentum=0.9)  # type: ignore[call-arg]
    states = []
    for step in range(3):
        sgd.zero_grad(set_to_none=True)
        (weight**4).sum().backward()  # type: ignore[no-untyped-call]
        sgd.step()
        states.append(weight.detach().clone())
        sgd.load_state_dict(sgd.state_dict())
        sgd.param_groups[0]["lr"] = 0.1 / (step + 2)
    return states


def _lbfgs_steps(optimizer: type[torch.optim.Optimizer], weight: Tensor) -> list[Tensor]:
    lbfgs = optimizer([weight], max_iter=7, line_search_fn="strong_wolfe")  # type: ignore[call-arg]

    def loss() -> Tensor:
        lbfgs.zero_grad()
        value = ((weight - 1) ** 4).sum() + weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    return [torch.as_tensor(lbfgs.step(loss)).detach(), weight.detach()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "theirs", "steps"),
    [(SGD, torch.optim.SGD, _sgd_steps), (LBFGS, torch.optim.LBFGS, _lbfgs_steps)],
)
def test_steps_are_those_of_torch(
    ours: type[torch.optim.Optimizer], theirs: type[torch.optim.Optimizer], steps: Steps
) -> None:
    begin = torch.linspace(-1, 2, 12).reshape(3, 4)
    found, expected = (steps(optimizer, begin.clone().requires_grad_()) for optimizer in (ours, theirs))
    assert not torch.equal(found[-1], begin)
    for tensor, same in zip(found, expected, strict=True):
        assert torch.equal(tensor, same)


def test_a_step_is_not_recorded_for_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.grad = torch.ones(2)
    SGD([weight], lr=1.0, momentum=0.9).step()
    assert weight.is_leaf
    assert torch.is_grad_enabled()
    assert weight.tolist() == [0, 0]


@pytest.mark.slow
def test_a_training_run_imports_neither_the_compiler_nor_other_slow_packages(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    make_domain("domain")
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['torch']"
