"""Run model files without torch."""

from prunus.runtime.predictor import Prediction as Prediction
from prunus.runtime.predictor import Predictor as Predictor
from prunus.runtime.predictor import Result as Result
