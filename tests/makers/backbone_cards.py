"""The card of a small network that was never trained."""

from __future__ import annotations

from prunus.backbone.card import BackboneCard
from prunus.images import Preprocess


def tiny_card(name: str = "wrn14_2", size: int = 24, resize: int = 25) -> BackboneCard:
    """Return a card whose preprocessing differs from that of the table."""
    preprocess = Preprocess(size=size, resize=resize, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    return BackboneCard(
        name=name,
        preprocess=preprocess,
        trained_on="leaves",
        classes=("oak", "elm"),
        images=80,
        epochs=3,
        accuracy=0.75,
        images_per_second=120.5,
        prunus="0.1.0",
    )
