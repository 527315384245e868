"""Remove a domain from a model file."""

from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.editing.domains import remove_domain as without_domain
from prunus.editing.provenance import record_removal
from prunus.errors import BundleError
from prunus.files import as_path
from prunus.measure.bundle_cost import bundle_costs


def remove_domain(model: str | Path, name: str, out: str | Path) -> Path:
    """Write a model file without one of its domains, and without the kernels that only this domain used.

    Every other domain answers exactly as before.
    """
    file = as_path(out, "the model file to write")
    if file.is_dir():
        raise BundleError(f"{out} is a folder; name the file to write, such as {file / 'model.prunus'}")
    bundle = read_bundle(as_path(model, "a model file"))
    smaller = without_domain(bundle, name)
    origin = record_removal(bundle.manifest.provenance, name, bundle_costs(smaller).union())
    manifest = smaller.manifest.model_copy(update={"provenance": origin})
    write_bundle(file, Bundle(manifest, smaller.arrays), bundle.dtype)
    return file
