"""Pack a training run into a model file."""

from prunus.bundle.bundle import Bundle
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.lowering.pack import pack
from prunus.training.run import TrainedRun


def pack_run(run: TrainedRun) -> Bundle:
    """Pack an opened run, with its recipe and versions as provenance."""
    identity = run.checkpoint.identity
    return pack(run.net, run.backbone, domain_entries(identity), provenance(identity, run.checkpoint.position))
