"""Run a model file, without torch: one call, the domain an argument."""

from prunus.runtime.predictor import Prediction as Prediction
from prunus.runtime.predictor import Predictor as Predictor
