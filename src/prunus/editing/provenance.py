"""What a model file records of the domains that were added to it and removed from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from prunus.bundle.manifest import Provenance

ADDED = "added"
RECORDED = ("prunus", "torch", "step", "total_steps", "recipe")  # of the run that learned an added domain

Content = dict[str, Any]  # a recipe, as JSON


def record_addition(provenance: Provenance, name: str, own: Provenance, grown: float | None = None) -> Provenance:
    """Record a domain and the run that learned it; the file's recipe then lists the domain too.

    Args:
        own: the provenance of that run, whose recipe has one domain.
        grown: share of the original network's kernels that the domain was allowed to add.
    """
    (choice,) = own["recipe"]["domains"]
    names = [domain["name"] for domain in provenance.get("recipe", {}).get("domains", ())]
    place = names.index(name) if name in names else len(names)
    rest = record_removal(provenance, name)
    entry = {key: own[key] for key in RECORDED if key in own}
    changed = rest | {ADDED: rest.get(ADDED, {}) | {name: entry}}
    if "recipe" not in rest:
        return changed
    recipe = {key: value for key, value in rest["recipe"].items() if key not in ("benchmark", "root")}
    domains = [*recipe["domains"]]
    domains.insert(place, choice | ({"source": True} if name == _source(provenance) else {}))
    return changed | {"recipe": _grown(recipe, grown) | {"domains": domains}}


def record_removal(provenance: Provenance, name: str) -> Provenance:
    """Record that a domain is gone: neither the recipe of the file nor its additions name it."""
    changed: Provenance = dict(provenance)
    if ADDED in changed:
        left = {key: value for key, value in changed.pop(ADDED).items() if key != name}
        changed |= {ADDED: left} if left else {}
    if "recipe" in changed:
        recipe = changed["recipe"]
        domains = [domain for domain in recipe["domains"] if domain["name"] != name]
        changed["recipe"] = recipe | {"domains": domains} | _without_limit(recipe, name)
    return changed


def _source(provenance: Provenance) -> str | None:
    """Return the domain that the backbone was pretrained on: it stays the source if it is trained again."""
    choices = provenance.get("recipe", {}).get("domains", ())
    return next((choice["name"] for choice in choices if choice.get("source")), None)


def _without_limit(recipe: Mapping[str, Any], name: str) -> Content:
    """Return the budget without the limit of a domain's own."""
    budget = recipe.get("budget")
    macs = budget.get("macs") if isinstance(budget, dict) else None
    if not isinstance(budget, dict) or not isinstance(macs, dict) or name not in macs:
        return {}
    left = {key: value for key, value in macs.items() if key != name}
    limits = {key: value for key, value in budget.items() if key != "macs"} | ({"macs": left} if left else {})
    return {"budget": limits or 1.0}


def _grown(recipe: Content, grown: float | None) -> Content:
    """Raise the limit of kernels by what a domain was allowed to add."""
    budget = recipe.get("budget")
    if grown is None or budget is None:
        return recipe
    if isinstance(budget, dict):
        raised = {"kernels": min(1.0, budget["kernels"] + grown)} if "kernels" in budget else {}
        return recipe | {"budget": budget | raised}
    return recipe | {"budget": min(1.0, budget + grown)}


def recorded_names(provenance: Provenance) -> Sequence[str]:
    """Return the names of the domains that were added after the file was first written."""
    return tuple(provenance.get(ADDED, {}))
