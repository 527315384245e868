"""Check an installed Prunus: it answers a stored question correctly, with the native engine and without torch.

    python tests/golden/check_install.py [--engine numpy]

It needs nothing but the package, so it runs in any environment: that of a wheel's test, of a container, of the oldest
versions of the dependencies.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import prunus

MODELS = Path(__file__).parent / "model_format_3"
TOLERANCE = 1e-5  # of the largest logit


def check(name: str, engine: str) -> str:
    """Compare the answers of one model file with the stored ones; return what ran."""
    predictor = prunus.Predictor(MODELS / f"{name}.prunus", threads=1)
    if (predictor.engine == "numpy") != (engine == "numpy"):
        sys.exit(f"{name}: the engine is {predictor.engine}, expected {engine}")
    expected = load_file(MODELS / f"{name}.expected.safetensors")
    for domain in predictor.domains:
        logits = predictor.logits(expected["images"], domain=domain)
        stored = expected[f"logits/{domain}"]
        difference = float(np.abs(logits - stored).max() / np.abs(stored).max())
        if difference > TOLERANCE:
            sys.exit(f"{name}, {domain}: the answers differ from the stored ones by {difference:.2e}")
    return f"{name}: {len(list(predictor.domains))} domains, engine {predictor.engine}"


def main() -> None:
    """Check all model files of the newest format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["native", "numpy"], default="native")
    engine = parser.parse_args().engine
    for path in sorted(MODELS.glob("*.prunus")):
        print(check(path.stem, engine))
    if "torch" in sys.modules:
        sys.exit("a prediction imported torch")
    torch = "installed, but not imported" if importlib.util.find_spec("torch") else "not installed"
    print(f"prunus {prunus.__version__} answers correctly; torch is {torch}")


if __name__ == "__main__":
    main()
