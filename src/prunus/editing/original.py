"""The network that a model file was made from."""

from pydantic import ValidationError

from prunus.bundle.bundle import Bundle
from prunus.config import BackboneChoice
from prunus.editing.provenance import recorded_recipe
from prunus.errors import BackboneError
from prunus.images import Preprocess

PRETRAINED, RANDOM = "pretrained", "random"


def original_choice(bundle: Bundle, weights: str | None = None) -> BackboneChoice:
    """Return the backbone that a model file was made from.

    Args:
        weights: the file of its weights (default: what the model file records, if that is the same on every machine).
    """
    recipe = recorded_recipe(bundle.manifest.provenance)
    try:
        choice = BackboneChoice.model_validate(None if recipe is None else recipe.get("backbone"))
    except ValidationError:
        raise BackboneError("the model file does not record which backbone it was made from") from None
    if weights in (None, PRETRAINED) and choice.weights != PRETRAINED:
        advice = f'pass "{RANDOM}" as weights' if choice.weights == RANDOM else "pass the path of that file as weights"
        raise BackboneError(f"the model file was made from {choice.name} with the weights {choice.weights}; {advice}")
    return choice if weights is None else choice.model_copy(update={"weights": weights})


def check_original(bundle: Bundle, choice: BackboneChoice, fingerprint: str) -> None:
    """Refuse a network with other weights than the one that a model file was made from."""
    if fingerprint != bundle.manifest.provenance.get("backbone_sha256"):
        raise BackboneError(
            f"the model file was made from {choice.name} with other weights than {choice.weights}; "
            "pass the path of the weights that it was made from"
        )


def common_preprocess(bundle: Bundle) -> Preprocess:
    """Return the preprocessing of a domain that has none of its own, or else that of the first domain."""
    recipe = recorded_recipe(bundle.manifest.provenance) or {"domains": ()}
    own = {
        choice["name"]
        for choice in recipe["domains"]
        if choice.get("statistics") == "own" or choice.get("resize") or choice.get("fit", "crop") != "crop"
    }
    entries = bundle.manifest.domains
    return entries[next((name for name in entries if name not in own), next(iter(entries)))].preprocess
