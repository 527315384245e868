"""Write a model file for other runtimes."""

from pathlib import Path

from prunus.files import as_path
from prunus.onnx.files import export_domains, export_single
from prunus.runtime.predictor import Predictor
from prunus.verbs.arguments import ModelLike, model_path


def export(model: ModelLike, onnx: str | Path, single: bool = False) -> list[Path]:
    """Write ONNX models of a model file into a folder; each is checked against the file, and removed if it differs.

    Args:
        single: write one model with the domain's number as an input, instead of one smaller model per domain.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model_path(model))
    return (export_single if single else export_domains)(predictor, as_path(onnx, "the folder for ONNX models"))
