"""Choose where to compute."""

import torch

from prunus.errors import BackboneError


def choose_device(name: str = "auto") -> torch.device:
    """Return the named device; `auto` is a GPU if there is one, or else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        if name.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            raise BackboneError(
                f"the device {name!r} cannot be used: no CUDA device was found; use auto or cpu"
            ) from None
        reason = str(error).splitlines()[0]
        raise BackboneError(f"the device {name!r} cannot be used: {reason}; choose auto, cpu or cuda") from None
    return device
