"""Write a model file for other runtimes."""

from pathlib import Path

from prunus.onnx.files import export_domains, export_single
from prunus.runtime.predictor import Predictor


def export(model: str | Path, onnx: str | Path, single: bool = False) -> list[Path]:
    """Write ONNX models of a model file into a folder; each is checked against the file, and removed if it differs.

    Args:
        single: write one model with the domain's number as an input, instead of one smaller model per domain.
    """
    predictor = Predictor(model)
    return (export_single if single else export_domains)(predictor, Path(onnx))
