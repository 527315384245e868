"""One small model for many image domains, pruned to a budget.

The flow, which is also the order of the folders:

    recipe = prunus.load_recipe("recipe.toml")        # backbone, domains, budget, sharing, training
    prunus.train(recipe, "runs/a")                    # switches, norms and heads of all domains, together
    prunus.evaluate("runs/a")                         # accuracy, usage, MACs, parameters, scores
    prunus.prune("runs/a", "model.prunus")            # drop what no domain uses
    prunus.Predictor("model.prunus").predict("rose.jpg", domain="flowers")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from prunus.version import __version__ as __version__

if TYPE_CHECKING:
    from prunus.config import Recipe as Recipe
    from prunus.errors import PrunusError as PrunusError
    from prunus.recipes import load_recipe as load_recipe
    from prunus.recipes import parse_recipe as parse_recipe
    from prunus.runtime.predictor import Prediction as Prediction
    from prunus.runtime.predictor import Predictor as Predictor
    from prunus.serving.settings import ServeSettings as ServeSettings
    from prunus.verbs.bench import bench as bench
    from prunus.verbs.card import card as card
    from prunus.verbs.check import check as check
    from prunus.verbs.compare import compare as compare
    from prunus.verbs.demo import demo as demo
    from prunus.verbs.evaluate import evaluate as evaluate
    from prunus.verbs.export import export as export
    from prunus.verbs.inspect import inspect as inspect
    from prunus.verbs.load_network import load_network as load_network
    from prunus.verbs.prune import prune as prune
    from prunus.verbs.report import write_report as write_report
    from prunus.verbs.score import score_accuracies as score_accuracies
    from prunus.verbs.score import score_results as score_results
    from prunus.verbs.serve import serve as serve
    from prunus.verbs.submit import submit as submit
    from prunus.verbs.tables import tables as tables
    from prunus.verbs.train import resume as resume
    from prunus.verbs.train import train as train
    from prunus.verbs.zoo import zoo as zoo

# looked up on first use: what runs a model must not import what trains one
_HOMES = {
    "Recipe": "prunus.config",
    "load_network": "prunus.verbs.load_network",
    "load_recipe": "prunus.recipes",
    "parse_recipe": "prunus.recipes",
    "PrunusError": "prunus.errors",
    "Prediction": "prunus.runtime.predictor",
    "Predictor": "prunus.runtime.predictor",
    "ServeSettings": "prunus.serving.settings",
    "bench": "prunus.verbs.bench",
    "card": "prunus.verbs.card",
    "check": "prunus.verbs.check",
    "compare": "prunus.verbs.compare",
    "demo": "prunus.verbs.demo",
    "evaluate": "prunus.verbs.evaluate",
    "export": "prunus.verbs.export",
    "inspect": "prunus.verbs.inspect",
    "prune": "prunus.verbs.prune",
    "resume": "prunus.verbs.train",
    "score_accuracies": "prunus.verbs.score",
    "score_results": "prunus.verbs.score",
    "serve": "prunus.verbs.serve",
    "submit": "prunus.verbs.submit",
    "tables": "prunus.verbs.tables",
    "train": "prunus.verbs.train",
    "write_report": "prunus.verbs.report",
    "zoo": "prunus.verbs.zoo",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prunus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
