"""Choose the engine that runs a bundle: the native one, or numpy if the package was built without a compiler."""

import os
import warnings
from typing import Protocol

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import UnknownNameError
from prunus.runtime.whole_numbers import whole_number

ENGINE = "PRUNUS_ENGINE"  # environment variable: "numpy", or an instruction set of the native engine
MAX_THREADS = 1024


class Engine(Protocol):
    """Computes the logits of prepared images; several threads may use it at once."""

    @property
    def name(self) -> str:
        """Return the name of the instruction set, or "numpy"."""

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain; return (N, classes)."""


def make_engine(bundle: Bundle, threads: int) -> Engine:
    """Return the engine that the environment asks for, by default the fastest available."""
    threads = whole_number("threads", threads, MAX_THREADS)
    from prunus.runtime.numpy_engine import NumpyEngine  # noqa: PLC0415  # only one of the engines is needed

    name = os.environ.get(ENGINE) or "auto"
    if name == "numpy":
        return NumpyEngine(bundle)
    try:
        from prunus.runtime.native_engine import NativeEngine, check_kernels  # noqa: PLC0415
    except ImportError as error:
        if name != "auto":
            raise UnknownNameError("engine", name, ["auto", "numpy"]) from error
        warnings.warn(
            f"the native engine is missing ({error}); falling back to numpy (same results, slower). "
            "To get it, install a C++ compiler and then Prunus again",
            RuntimeWarning,
            stacklevel=2,
        )
        return NumpyEngine(bundle)
    check_kernels(name)
    return NativeEngine(bundle, threads, name)
