"""Pack a training run into a model file."""

from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.errors import BundleError
from prunus.extending.continuing import finishing_command
from prunus.lowering.pack import pack
from prunus.training.run import TrainedRun


def pack_run(run: TrainedRun) -> Bundle:
    """Pack an opened run, with its recipe and versions as provenance."""
    if run.recipe.backbone.is_model_file:
        raise BundleError(
            f"{run.folder} learned one domain for {Path(run.recipe.backbone.name).name}, which holds the rest of the "
            f"network; write both to a model file with: {finishing_command(run.recipe, run.folder)}"
        )
    identity = run.checkpoint.identity
    return pack(run.net, run.backbone, domain_entries(identity), provenance(identity, run.checkpoint.position))
