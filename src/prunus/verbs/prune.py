"""Write a run as one small model file."""

from pathlib import Path

from prunus.arrays import DType
from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BundleError
from prunus.evaluation.packing import pack_run
from prunus.measure.bundle_cost import bundle_costs
from prunus.presets import of_any_version
from prunus.recipes import parse_recipe
from prunus.training.findings import larger_than_dense, limit_of, over_budget
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


def find_problems(model: Path) -> list[str]:
    """Say what is wrong with a model file that was just written: its usage, or its size."""
    bundle = read_bundle(model)
    costs = bundle_costs(bundle)
    usages = {name: costs.usage(name) for name in bundle.domains}
    recipe = bundle.manifest.provenance.get("recipe")
    limit = limit_of(parse_recipe(of_any_version(recipe))) if recipe else None
    return [
        *over_budget(usages, costs.union(), limit),
        *larger_than_dense(model.stat().st_size, bundle.manifest.dense_bytes),
    ]
