"""One small model for many image domains, pruned to a budget.

The flow, which is also the order of the folders:

    prunus.train("recipe.toml", "runs/a")             # switches, norms and heads of all domains, together
    prunus.evaluate("runs/a")                         # accuracy, usage, MACs, parameters, scores
    prunus.prune("runs/a", "model.prunus")            # drop what no domain uses
    prunus.Predictor("model.prunus").predict("rose.jpg", domain="flowers")[0].label
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)  # the names are in __init__.pyi
