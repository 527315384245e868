"""Pack a training run into a model file."""

from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.errors import BundleError
from prunus.lowering.pack import pack
from prunus.training.run import TrainedRun


def pack_run(run: TrainedRun) -> Bundle:
    """Pack an opened run, with its recipe and versions as provenance."""
    if run.recipe.backbone.is_model_file:
        name = Path(run.recipe.backbone.name).name
        raise BundleError(
            f"this run learned one domain for {name}, which holds the rest of the network; write both to a model file "
            f"with: prunus add-domain {name} IMAGES --run FOLDER-OF-THIS-RUN --out OUT.prunus"
        )
    identity = run.checkpoint.identity
    return pack(run.net, run.backbone, domain_entries(identity), provenance(identity, run.checkpoint.position))
