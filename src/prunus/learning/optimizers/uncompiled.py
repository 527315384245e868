"""torch's optimizers for steps that are not compiled.

The first use of an optimizer of torch imports torch's compiler, for the case that someone compiles the step. That takes
longer than importing torch itself, and nobody here compiles these steps. The classes below have the same methods
without what surrounds them for the compiler.
"""

import inspect

import torch
from torch.optim.optimizer import Optimizer


class _Uncompiled(Optimizer):
    """Replaces the methods of `Optimizer` that import the compiler before they start."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)


class SGD(_Uncompiled, torch.optim.SGD):
    """torch.optim.SGD without the compiler."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


class LBFGS(_Uncompiled, torch.optim.LBFGS):
    """torch.optim.LBFGS without the compiler."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.LBFGS.step))
