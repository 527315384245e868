"""What a predictor needs of an engine: the native one, or numpy where the package was installed without a compiler."""

from __future__ import annotations

import os
import warnings
from typing import Protocol

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import UnknownNameError
from prunus.runtime.whole_numbers import whole_number

ENGINE = "PRUNUS_ENGINE"  # environment variable: "numpy", or an instruction set that the native engine is to use
MOST_THREADS = 1024


class Engine(Protocol):
    """Computes logits of prepared images; several threads may ask at once."""

    @property
    def name(self) -> str:
        """Name what computes: an instruction set, or numpy."""

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain: (N, classes)."""


def make_engine(bundle: Bundle, threads: int) -> Engine:
    """Choose what computes."""
    threads = whole_number("threads", threads, MOST_THREADS)
    from prunus.runtime.numpy_engine import NumpyEngine  # noqa: PLC0415  # one of the two is enough

    wanted = os.environ.get(ENGINE) or "auto"
    if wanted == "numpy":
        return NumpyEngine(bundle)
    try:
        from prunus.runtime.native_engine import NativeEngine, check_kernels  # noqa: PLC0415
    except ImportError as error:
        if wanted != "auto":
            raise UnknownNameError("engine", wanted, ["auto", "numpy"]) from error
        _say_once(str(error))
        return NumpyEngine(bundle)
    check_kernels(wanted)
    return NativeEngine(bundle, threads, wanted)


def _say_once(reason: str) -> None:
    warnings.warn(
        f"the native engine is not there ({reason}), so that numpy computes: the same answers, slowly; install prunus "
        "again where a C++ compiler is found",
        RuntimeWarning,
        stacklevel=2,
    )
