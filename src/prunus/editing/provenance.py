"""What a model file records of the domains that were added to it and removed from it."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from prunus.bundle.manifest import Provenance

ADDED = "added"
GROWN = "grown"  # by how much a domain has raised the limit of kernels
RECORDED = ("prunus", "torch", "step", "total_steps", "recipe")  # of the run that learned an added domain

Content = dict[str, Any]  # a recipe, as JSON


def record_addition(provenance: Provenance, name: str, own: Provenance, grown: float | None = None) -> Provenance:
    """Record a domain and the run that learned it; the file's recipe then lists the domain too.

    A domain that is trained again keeps its place, its limit of MACs, its mark as the source, and what it has raised
    the limit of kernels by: it may use the kernels that were added for it.

    Args:
        own: the provenance of that run, whose recipe has one domain.
        grown: share of the original network's kernels that the domain was allowed to add.
    """
    (choice,) = own["recipe"]["domains"]
    entry = {key: own[key] for key in RECORDED if key in own}
    rest = record_removal(provenance, name)
    before, after = recorded_recipe(provenance), recorded_recipe(rest)
    if before is None or after is None:
        return rest | {ADDED: _added(rest) | {name: entry}}
    names = [domain["name"] for domain in before["domains"]]
    recipe = {key: value for key, value in after.items() if key not in ("benchmark", "root")}
    domains = [*recipe["domains"]]
    place = names.index(name) if name in names else len(names)
    domains.insert(place, choice | ({"source": True} if name == _source(before) else {}))
    if raised := _raised(recipe, _grown(provenance, name) + (grown or 0.0)):
        entry[GROWN] = raised
        recipe |= _with_kernels(recipe, raised)
    if (limit := _macs(before).get(name)) is not None:
        recipe["budget"] = _table(recipe) | {"macs": _macs(recipe) | {name: limit}}
    return rest | {"recipe": recipe | {"domains": domains}, ADDED: _added(rest) | {name: entry}}


def record_removal(provenance: Provenance, name: str, used: float = 0.0) -> Provenance:
    """Record that a domain is gone: the recipe and the additions do not name it, and the budget has none of its own.

    Args:
        used: share of the kernels that the other domains use; the limit falls no lower.
    """
    added, grown = _added(provenance), _grown(provenance, name)
    added.pop(name, None)
    changed = {key: value for key, value in provenance.items() if key != ADDED} | ({ADDED: added} if added else {})
    before = recorded_recipe(provenance)
    if before is None:
        return changed
    recipe = before | {"domains": [domain for domain in before["domains"] if domain["name"] != name]}
    if grown:
        limit = _table(recipe)["kernels"]
        recipe |= _with_kernels(recipe, max(-grown, min(used - limit, 0.0)))
    if name in (macs := _macs(recipe)):
        left = {key: value for key, value in macs.items() if key != name}
        limits = {key: value for key, value in _table(recipe).items() if key != "macs"}
        recipe["budget"] = limits | ({"macs": left} if left else {}) or 1.0
    return changed | {"recipe": recipe}


def recorded_recipe(provenance: Provenance) -> Content | None:
    """Return the recipe of a provenance; None if it has none, or one of another shape: files from elsewhere may."""
    recipe = provenance.get("recipe")
    domains = recipe.get("domains") if isinstance(recipe, dict) else None
    if not isinstance(recipe, dict) or not isinstance(domains, list):
        return None
    named = all(isinstance(domain, dict) and isinstance(domain.get("name"), str) for domain in domains)
    kernels, macs = (_table(recipe).get(key) for key in ("kernels", "macs"))
    limits = isinstance(kernels, (int, float, NoneType)) and isinstance(macs, (int, dict, NoneType))
    return recipe if named and limits else None


def _added(provenance: Provenance) -> dict[str, Content]:
    """Return what a provenance records of added domains, without entries of another shape."""
    added = provenance.get(ADDED)
    return {name: entry for name, entry in added.items() if isinstance(entry, dict)} if isinstance(added, dict) else {}


def _grown(provenance: Provenance, name: str) -> float:
    """Return by how much a domain has raised the limit of kernels; 0 if it has not, or if that cannot be."""
    recipe, grown = recorded_recipe(provenance), _added(provenance).get(name, {}).get(GROWN)
    limit = None if recipe is None else _table(recipe).get("kernels")
    return grown if isinstance(grown, float) and limit is not None and 0 < grown < limit else 0.0


def _source(recipe: Mapping[str, Any]) -> str | None:
    """Return the domain that the backbone was pretrained on."""
    return next((choice["name"] for choice in recipe["domains"] if choice.get("source") is True), None)


def _table(recipe: Mapping[str, Any]) -> Content:
    """Return the limits of a recipe by name; a plain share limits the kernels."""
    budget = recipe.get("budget", {})
    return budget if isinstance(budget, dict) else {"kernels": budget}


def _macs(recipe: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of MACs that single domains have."""
    macs = _table(recipe).get("macs")
    return macs if isinstance(macs, dict) else {}


def _raised(recipe: Mapping[str, Any], grown: float) -> float:
    """Return by how much the limit of kernels can rise: it ends at all of them."""
    kernels = _table(recipe).get("kernels")
    return 0.0 if kernels is None else min(grown, 1.0 - kernels)


def _with_kernels(recipe: Mapping[str, Any], change: float) -> Content:
    """Return the budget with another limit of kernels."""
    table = _table(recipe)
    kernels = round(table["kernels"] + change, 12)
    return {"budget": table | {"kernels": kernels} if isinstance(recipe["budget"], dict) else kernels}
