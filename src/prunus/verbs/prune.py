"""Write a run as one small model file."""

from pathlib import Path

from prunus.arrays import DType
from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.evaluation.packing import pack_run
from prunus.training.run import open_run


def prune(run: str | Path, out: str | Path, dtype: DType = "float32") -> Path:
    """Drop every kernel that no domain of a run uses and write the rest to one file.

    Args:
        dtype: how weights are stored: float32, float16 or bfloat16.
    """
    if Path(out).is_dir():
        raise BundleError(f"{out} is a folder; name the file to write, such as {Path(out) / 'model.prunus'}")
    write_bundle(Path(out), pack_run(open_run(Path(run), device="cpu")), dtype)
    return Path(out)
