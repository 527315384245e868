"""Write a model card from a model file alone."""

from pathlib import Path

from prunus.bundle.file import read_bundle
from prunus.files import write_atomically
from prunus.measure.bundle_cost import bundle_costs
from prunus.report.card import Card, card_text
from prunus.report.targets import check_file
from prunus.verbs.arguments import ModelLike, model_path


def card(model: ModelLike, out: str | Path | None = None) -> str:
    """Describe a model file in Markdown: domains, costs, image preparation, usage, origin and limits.

    Args:
        out: also write the text to this file.
    """
    if out is not None:
        check_file(Path(out), "CARD.md")
    path = model_path(model)
    bundle = read_bundle(path)
    text = card_text(Card(path.name, path.stat().st_size, bundle, bundle_costs(bundle)))
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text
